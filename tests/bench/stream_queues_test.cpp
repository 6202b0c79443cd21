// What a step queues on the streams of an emulated GPU, compared with a file: each kernel with its
// blocks and threads, each product, copy, event and collective, the stream, its priority, and which
// earlier operations it waits for. A lost or a needless wait, launch or copy shows, although the
// results are the same. Whoever changes one on purpose writes the file anew with
// DLRM_UPDATE_COUNTS=1. One rank: with several, ids are copied to the device when they arrive.
#include "bench/timeline.h"

#if defined(DLRM_SIMT)
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "bench/timeline_parts.h"
#include "pinned_text.h"

namespace dlrm::bench {
namespace {

constexpr const char* kModel = R"(
model:
  dense_features: 5
  embedding_dim: 8
  bottom_mlp: [16, 8]
  top_mlp: [12, 1]
  tables:
    - {name: cut, rows: 90, hotness: 3}
    - {name: whole, rows: 50}
    - {name: copied, rows: 3}
    - {name: both, rows: 70, features: [{name: f}, {name: g, hotness: 2, pooling: mean}]}
data: {source: synthetic}
train: {global_batch_size: 16, dense_optimizer: {lr: 1e-4}, sparse_optimizer: {lr: 1e-4}}
sharding: {tables: {cut: row, whole: table, copied: data_parallel, both: column}}
)";

/// Operations in the last recorded step. Needs are numbers of lines of this step; those
/// of earlier steps are counted.
std::string queued_in(const RecordedSteps& steps) {
  std::map<int, int> lines;
  std::string text;
  int streams = 0;
  std::map<int, int> names;  // of streams
  for (size_t i = 0; i < steps.queued.operations.size(); ++i) {
    const QueuedOperation& o = steps.queued.operations[i];
    if (o.label < 0) continue;
    const StepPlace& place = steps.place(o.label);
    if (place.step != steps.steps - 1) continue;
    lines.emplace(static_cast<int>(i), static_cast<int>(lines.size()));
    if (o.stream >= 0 && names.emplace(o.stream, streams).second) ++streams;
    std::vector<int> needs;
    int before = 0;
    for (const int need : o.needs) {
      const auto line = lines.find(need);
      line == lines.end() ? void(++before) : needs.push_back(line->second);
    }
    std::sort(needs.begin(), needs.end());
    text += fmt::format("  {} {} {}{} stream {} ({})", lines.size() - 1, place.stage, shown_name(o),
                        o.collective ? "*" : "", o.stream < 0 ? -1 : names[o.stream], o.priority);
    if (o.threads > 0) text += fmt::format(" {} x {}", o.blocks, o.threads);
    if (o.flops > 0) text += fmt::format(" {} flops", o.flops);
    if (o.bytes > 0) text += fmt::format(" {} bytes", o.bytes);
    if (before > 0) text += fmt::format(" after {} before", before);
    text += fmt::format(" after {}\n", fmt::join(needs, " "));
  }
  return text;
}

struct Case {
  const char* name;
  std::vector<std::string> set;
  int64_t samples = 5;
};

TEST(StreamQueues, AreThoseOfTheFile) {
  const std::string cross = "model.interaction={type: cross, layers: 2, rank: 4}";
  const std::vector<Case> cases = {
      {"dot", {}},
      {"concat, bf16", {"model.interaction=concat", "train.precision=bf16"}},
      {"cross, bf16", {cross, "train.precision=bf16"}},
      {"fm, adam",
       {"model.interaction=fm", "train.dense_optimizer.type=adam",
        "train.sparse_optimizer.type=adam"}},
      {"rowwise", {"train.sparse_optimizer.type=rowwise_adagrad"}},
      {"lamb, ftrl", {"train.dense_optimizer.type=lamb", "train.sparse_optimizer.type=ftrl"}},
      {"more samples", {"model.bottom_mlp=[96, 8]"}, 700},
      {"more samples, cross", {cross}, 600},
      {"two ahead", {"routing.depth=2", "train.wire={forward: fp16, backward: bf16}"}},
      {"over the link", {"memory.tables={whole: host, both: host}"}},
  };
  std::string text;
  for (const Case& one : cases) {
    TimelineOptions options;
    options.config = parse_config(kModel, "small", one.set);
    options.ranks = 1;
    options.samples = one.samples;
    options.rows = 101;
    const RunConfig config = emulated_config(options);
    const RecordedSteps steps = record_steps(config, make_plan(config, 1, {}));
    text += fmt::format("{}\n{}", one.name, queued_in(steps));
  }
  expect_text_of_file(text, DLRM_SOURCE "/tests/bench/stream_queues.txt");
}

}  // namespace
}  // namespace dlrm::bench
#endif
