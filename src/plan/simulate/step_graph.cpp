#include "step_graph.h"

#include <algorithm>

namespace dlrm {
namespace {

constexpr const char* kIds = "exchange of ids";
constexpr const char* kVectors = "exchange of vectors";
constexpr const char* kGradients = "exchange of gradients";
constexpr const char* kNodeSums = "exchange for node sums";
constexpr const char* kCopies = "exchange of copies";

}  // namespace

void StepGraph::add_step() {
  // A batch is routed while the one before trains. More than one ahead does not shorten the step.
  const bool ahead = work_.batches_ahead > 0;
  const Point ids = ids_ ? *ids_ : route();
  if (ahead) ids_ = route();
  forward(ids);
  backward();
  update();
}

/// Makes a batch of synthetic samples. -1 if that takes no time.
StepGraph::Point StepGraph::read(Point after) {
  if (!work_.draws_samples || tasks_.speed().draw_id <= 0) return -1;
  const RankTasks::Lane lane = work_.readers > 0 ? RankTasks::kReaders : RankTasks::kMain;
  return tasks_.keep_busy("data", lane, {after}, std::max(work_.readers, 1), [&](size_t r) {
    return work_.ranks[r].sent_ids * tasks_.speed().draw_id;
  });
}

/// On a GPU the threads of the host route after they know the loss of the step before. The next
/// step waits for them.
StepGraph::Point StepGraph::route() {
  const Point made = read_ ? *read_ : read(-1);
  const double an_id = tasks_.speed().route_id;
  const std::vector<Point> after{loss_, made};
  const Point bucketed =
      tasks_.speed().gpu
          ? tasks_.keep_busy("route", RankTasks::kHost, after, tasks_.threads(),
                             [&](size_t r) { return work_.ranks[r].routed_ids * an_id; })
          : compute("route", RankTasks::kHost, after, [&](const RankWork& rank) {
              return Demand{.bytes = rank.route_bytes, .busy = rank.sent_ids * an_id};
            });
  // Readers make the next batch meanwhile.
  if (work_.readers > 0) read_ = read(bucketed);
  return tasks_.start(kIds, RankTasks::kIds, work_.ids, {bucketed});
}

void StepGraph::forward(Point ids) {
  const double shard = tasks_.speed().shard / 2;
  const Point received = tasks_.finish(kIds, work_.ids, ids);
  const Point looked_up =
      compute("lookup", RankTasks::kSide, {received, tasks_.main()}, [&](const RankWork& rank) {
        const MachineSpeed& speed = tasks_.speed();
        return Demand{.bytes = rank.forward_bytes,
                      .latency = rank.shards * shard,
                      .busy = rank.received_ids * (speed.receive_id + speed.lookup_id),
                      .launches = 5};
      });
  const Point summed = sum_in_nodes(RankTasks::kSide, looked_up, true);
  const Point sent = tasks_.start(kVectors, RankTasks::kVectors, work_.pooled, {summed});
  dense_.bottom();
  const Point arrived = tasks_.finish(kVectors, work_.pooled, sent);
  compute("return", RankTasks::kMain, {looked_up, arrived},
          [&](const RankWork& rank) { return copied(rank.received_bytes, 2); });
  dense_.interact();
  dense_.top();
  loss_ = compute("loss", RankTasks::kMain, {},
                  [&](const RankWork&) { return Demand{.launches = 3 * work_.dense.labels}; });
}

/// Partial vectors are copied to messages, exchanged in the node and added, or their gradients are
/// handed out in the same way. The ranks of a CPU do this while they multiply in the bottom layers,
/// which is left out here.
StepGraph::Point StepGraph::sum_in_nodes(RankTasks::Lane lane, Point after, bool forward) {
  if (work_.node_sums.empty()) return after;
  const auto copy = [&](Point ready, bool sent) {
    return compute("node sums", lane, {ready}, [&, sent](const RankWork& rank) {
      return Demand{2 * (sent == forward ? rank.node_sent : rank.node_received)};
    });
  };
  const Point packed = copy(after, true);
  const Point sent = tasks_.start(kNodeSums, RankTasks::kVectors, work_.node_sums, {packed});
  return copy(tasks_.finish(kNodeSums, work_.node_sums, sent), false);
}

void StepGraph::backward() {
  const bool beside = tasks_.speed().gpu;  // sorts run beside the backward pass
  if (beside) sorted_ = sort();
  dense_.top_back();
  dense_.interact_back();
  const Point packed = compute("backward", RankTasks::kMain, {},
                               [&](const RankWork& rank) { return copied(rank.packed_bytes, 1); });
  gradients_ = tasks_.start(kGradients, RankTasks::kVectors, work_.gradients, {packed});
  if (work_.sums_copies()) {
    compute("backward", RankTasks::kMain, {}, [&](const RankWork& rank) {
      return Demand{.bytes = rank.copy_gradient_bytes, .launches = 2};
    });
  }
  copies_ = tasks_.start(kCopies, RankTasks::kSums, work_.replicas, {tasks_.main()});
  if (!beside) sorted_ = sort();
  dense_.bottom_back();
  dense_.held_gradients();
}

void StepGraph::update() {
  const bool rows_first = tasks_.speed().gpu;
  if (rows_first) update_rows({dense_.first_sum()});
  dense_.finish_gradients();
  compute("update", RankTasks::kMain, {}, [&](const RankWork&) {
    return Demand{.bytes = work_.dense.update_bytes, .launches = 3};
  });
  if (!rows_first) update_rows({});
}

void StepGraph::update_rows(std::vector<Point> after) {
  const double shard = tasks_.speed().shard / 2;
  const Point arrived = tasks_.finish(kGradients, work_.gradients, gradients_);
  const Point gradients = sum_in_nodes(RankTasks::kMain, arrived, false);
  dense_.held_sums(gradients);
  after.insert(after.end(), {sorted_, gradients});
  compute("update", RankTasks::kMain, after, [&](const RankWork& rank) {
    return Demand{.bytes = rank.shard_updates(work_.sums_copies()),
                  .latency = rank.shards * shard,
                  .busy = rank.received_ids * tasks_.speed().update_id,
                  .launches = 4};
  });
  if (!work_.sums_copies()) return;
  const Point copies =
      work_.joins_copies ? dense_.last_sum() : tasks_.finish(kCopies, work_.replicas, copies_);
  compute("update", RankTasks::kMain, {copies},
          [](const RankWork& rank) { return Demand{rank.copy_update_bytes}; });
}

StepGraph::Point StepGraph::sort() {
  return compute("sort", RankTasks::kSide, {tasks_.main()}, [](const RankWork& rank) {
    return Demand{.bytes = rank.sort_bytes, .launches = 7};
  });
}

}  // namespace dlrm
