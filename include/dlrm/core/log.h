#pragma once
#include <string>

#include <fmt/core.h>

namespace dlrm {

/// Plain lines on stderr with the time of day. Each line is written by one call, so lines of
/// several ranks do not mix. Ranks other than 0 print only warnings, with their number.
class Log {
 public:
  explicit Log(int rank = 0) : rank_(rank) {}

  template <class... Args>
  void info(fmt::format_string<Args...> format, Args&&... args) const {
    if (rank_ == 0) line(fmt::format(format, std::forward<Args>(args)...));
  }
  template <class... Args>
  void warn(fmt::format_string<Args...> format, Args&&... args) const {
    const std::string who = rank_ == 0 ? "" : fmt::format("rank {}: ", rank_);
    line("warning: " + who + fmt::format(format, std::forward<Args>(args)...));
  }
  int rank() const { return rank_; }

 private:
  void line(const std::string& text) const;
  int rank_;
};

}  // namespace dlrm
