#pragma once
#include <string>

namespace dlrm {

/// Notes the parallel regions and the products of oneDNN that this thread starts, with their
/// numbers of threads, while the object lives. "-" stands for none.
class NotedCalls {
 public:
  NotedCalls();
  ~NotedCalls();
  static std::string text();
  /// Notes something else.
  static void add(const std::string& what);
};

/// Of each parallel region that this thread starts, only one part is run, while the object lives.
class OnlyPart {
 public:
  explicit OnlyPart(int part);
  ~OnlyPart();
};

/// A function of oneDNN fails in this thread while the object lives.
class FailingProducts {
 public:
  enum class At { kMake, kRun };
  explicit FailingProducts(At at);
  ~FailingProducts();
};

}  // namespace dlrm
