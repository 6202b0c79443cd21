#pragma once
#include <string>
#include <vector>

#include "dlrm/plan/machine.h"

#include "unfused_step.h"

namespace dlrm::bench {

/// Step times that another program's authors have published.
struct PublishedTimes {
  struct Point {
    std::string config;  ///< path
    int ranks = 0;
    double ms = 0;
    bool fitted = false;  ///< the costs were fitted to it
  };
  std::string program;
  std::string source;
  double largest_slice = 0;  ///< of memory_balanced_plan()
  UnfusedCosts costs;        ///< of that program
  std::vector<Point> points;
};

/// Reads such a file (docs/file-formats.md). A usage_error names the file and the key.
PublishedTimes read_published(const std::string& path);

/// Step times in ms.
struct PublishedComparison {
  PublishedTimes::Point point;
  double theirs = 0;  ///< simulated, of the program that was measured, with its placement
  double ours = 0;    ///< simulated, of dlrm-train with its plan

  double error() const { return theirs / point.ms - 1; }
};

struct PublishedResult {
  Machine machine;
  std::vector<PublishedComparison> points;
};

PublishedResult compare_published(const PublishedTimes& times, const std::string& machine);

std::string to_table(const PublishedTimes& times, const PublishedResult& result);
std::string to_json(const PublishedTimes& times, const PublishedResult& result);

}  // namespace dlrm::bench
