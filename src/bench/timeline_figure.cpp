#include <algorithm>
#include <map>
#include <string_view>

#include <fmt/core.h>

#include "timeline.h"

namespace dlrm::bench {
namespace {

constexpr double kLeft = 20, kWidth = 1160, kTop = 96, kLane = 54, kBar = 26;

/// The streams of rank 0 with operations in the last step, in the order of their first one.
class Lanes {
 public:
  explicit Lanes(const TimelineResult& result) {
    name_streams(result);
    for (size_t i = 0; i < result.operations.size(); ++i) {
      const TimelineOperation& o = result.operations[i];
      if (!drawn(o, result.graph[i])) continue;
      operations_.push_back({&o, number_of(key_of(o))});
    }
  }

  struct Drawn {
    const TimelineOperation* operation;
    int lane;
  };
  const std::vector<Drawn>& operations() const { return operations_; }
  const std::vector<std::string>& names() const { return names_; }

 private:
  static bool drawn(const TimelineOperation& o, const StepOperation& step) {
    const bool takes_time = step.part != StepPart::kNone;
    return takes_time && (o.collective || o.place.rank == 0) && !o.streams.empty();
  }
  /// Streams are named after what they hold, earlier names first.
  void name_streams(const TimelineResult& result) {
    constexpr std::pair<std::string_view, std::string_view> kHolds[] = {
        {"loss", "main stream"},
        {"embedding_forward", "lookups and sorts"},
        {"matmul", "weight gradients"},
        {"copy", "copies"}};
    for (const auto& [holds, name] : kHolds) {
      for (const TimelineOperation& o : result.operations) {
        if (o.place.rank != 0 || o.streams.empty() || o.collective || o.name != holds) continue;
        stream_names_.try_emplace(o.streams.front(), name);
      }
    }
  }
  /// Collectives have a lane each for exchanges and sums.
  std::string key_of(const TimelineOperation& o) const {
    if (o.collective) return o.name == "sum" ? "NCCL: sums" : "NCCL: exchanges";
    const auto found = stream_names_.find(o.streams.front());
    return found == stream_names_.end() ? "other streams" : found->second;
  }
  int number_of(const std::string& name) {
    const auto [found, is_new] = numbers_.try_emplace(name, static_cast<int>(names_.size()));
    if (is_new) names_.push_back(name);
    return found->second;
  }

  std::map<int, std::string> stream_names_;
  std::map<std::string, int> numbers_;
  std::vector<std::string> names_;
  std::vector<Drawn> operations_;
};

std::string_view class_of(const TimelineOperation& o) {
  if (o.collective) return "flight";
  if (o.name == "matmul") return "compute";
  if (o.kind == QueuedOperation::Kind::kCopy || o.kind == QueuedOperation::Kind::kFill) {
    return "copy";
  }
  return "pass";
}

std::string style() {
  return R"(  <style>
    .page { fill: #ffffff; }
    .lane { fill: #f2f4f7; }
    .text { fill: #1f2933; }
    .soft { fill: #52606d; }
    .compute { fill: #cfe3f7; stroke: #2f6fab; }
    .pass { fill: #fdeacb; stroke: #b7791f; }
    .copy { fill: #e4e7eb; stroke: #52606d; }
    .flight { fill: #d9efdc; stroke: #3c8a4b; }
    rect { stroke-width: 0.5; }
    @media (prefers-color-scheme: dark) {
      .page { fill: #161b22; }
      .lane { fill: #1f262e; }
      .text { fill: #e6edf3; }
      .soft { fill: #a9b4c0; }
      .compute { fill: #1d3f61; stroke: #6aa9e4; }
      .pass { fill: #57401a; stroke: #e0b05a; }
      .copy { fill: #323f4b; stroke: #a9b4c0; }
      .flight { fill: #1f4a2a; stroke: #6fc481; }
    }
  </style>
)";
}

}  // namespace

std::string to_figure(const TimelineOptions& options, const TimelineResult& result) {
  const Lanes lanes(result);
  const double height = kTop + kLane * static_cast<double>(lanes.names().size()) + 20;
  const double scale = kWidth / (result.end - result.begin);
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 1200 {0:.0f}\" width=\"1200\" "
      "height=\"{0:.0f}\" role=\"img\" aria-labelledby=\"title\" "
      "font-family=\"system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif\" font-size=\"12\">\n"
      "  <title id=\"title\">One step of rank 0: streams, launches, collectives</title>\n{1}"
      "  <rect class=\"page\" width=\"1200\" height=\"{0:.0f}\"/>\n",
      height, style());
  svg += fmt::format(
      "  <text class=\"text\" x=\"20\" y=\"28\" font-size=\"15\" font-weight=\"600\">"
      "A step of rank 0 of {} with batch {}: {:.2f} ms, modelled</text>\n"
      "  <text class=\"soft\" x=\"20\" y=\"48\">{}: times are modelled, not measured; operations "
      "and what they wait for are recorded in the emulator.</text>\n"
      "  <text class=\"soft\" x=\"20\" y=\"66\">Blue: products. Yellow: other kernels and sorts. "
      "Grey: copies and fills. Green: collectives of all ranks.</text>\n",
      options.ranks, options.config.train.global_batch_size, 1e3 * (result.end - result.begin),
      result.machine.name);
  for (size_t lane = 0; lane < lanes.names().size(); ++lane) {
    const double y = kTop + kLane * static_cast<double>(lane);
    svg += fmt::format(
        "  <rect class=\"lane\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>\n"
        "  <text class=\"soft\" x=\"{}\" y=\"{}\">{}</text>\n",
        kLeft, y, kWidth, kBar, kLeft, y - 4, lanes.names()[lane]);
  }
  for (const auto& [o, lane] : lanes.operations()) {
    const double begin = std::max(o->begin, result.begin), end = std::min(o->end, result.end);
    if (begin >= end) continue;
    svg += fmt::format(
        "  <rect class=\"{}\" x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{}\"><title>"
        "{}, {}: {:.1f} us</title></rect>\n",
        class_of(*o), kLeft + scale * (begin - result.begin), kTop + kLane * lane,
        scale * (end - begin), kBar, o->name, o->place.stage, 1e6 * (o->end - o->begin));
  }
  return svg + "</svg>\n";
}

}  // namespace dlrm::bench
