// From what the streams of all ranks queued to a graph in which a collective is one operation.
#include <algorithm>
#include <functional>
#include <map>
#include <queue>
#include <set>

#include "dlrm/core/error.h"

#include "timeline.h"
#include "timeline_parts.h"

namespace dlrm::bench {
namespace {

/// The nodes of the graph before they are ordered.
class Nodes {
 public:
  Nodes(const RecordedSteps& steps, const SummedCopies& copies) : steps_(steps), copies_(copies) {
    for (size_t i = 0; i < queued().size(); ++i) {
      if (shown_name(queued()[i]) == "loss") main_streams_.insert(queued()[i].stream);
      note_sent(queued()[i]);
      add(i);
    }
  }

  TimelineGraph ordered() {
    TimelineGraph graph;
    std::vector<int> place(nodes_.size(), -1);
    for (const int node : order()) {
      place[at(node)] = static_cast<int>(graph.graph.size());
      append(nodes_[at(node)], graph);
      for (const int need : nodes_[at(node)].needs) {
        graph.graph.back().needs.push_back(place[at(need)]);
      }
    }
    share_maxima(place, graph);
    share_vectors(place, graph);
    share_copies(graph);
    return graph;
  }

 private:
  struct Node {
    std::vector<int> members;  // operations of the recording
    std::vector<int> needs;    // nodes
  };

  static size_t at(int number) { return static_cast<size_t>(number); }
  const std::vector<QueuedOperation>& queued() const { return steps_.queued.operations; }

  void add(size_t i) {
    const QueuedOperation& operation = queued()[i];
    int node = static_cast<int>(nodes_.size());
    if (operation.collective != 0) {
      node = collectives_.try_emplace(operation.collective, node).first->second;
    }
    if (node == static_cast<int>(nodes_.size())) nodes_.emplace_back();
    node_of_.push_back(node);
    nodes_[at(node)].members.push_back(static_cast<int>(i));
    auto& needs = nodes_[at(node)].needs;
    for (const int need : operation.needs) {
      const int before = node_of_[at(need)];
      if (before != node && std::find(needs.begin(), needs.end(), before) == needs.end()) {
        needs.push_back(before);
      }
    }
  }

  /// Notes whether the operation's rank has copied the step's gradients to messages.
  void note_sent(const QueuedOperation& operation) {
    const StepPlace& place = steps_.place(operation.label);
    bool& sent = sent_of_step_[{place.rank, place.step}];
    sent_.push_back(sent);
    if (place.stage == "backward" && shown_name(operation) == "copy_blocks") sent = true;
  }

  /// The nodes, each after its needs, otherwise as they were queued.
  std::vector<int> order() const {
    std::vector<int> waits(nodes_.size()), order;
    std::vector<std::vector<int>> after(nodes_.size());
    std::priority_queue<int, std::vector<int>, std::greater<>> ready;
    for (size_t n = 0; n < nodes_.size(); ++n) {
      waits[n] = static_cast<int>(nodes_[n].needs.size());
      for (const int need : nodes_[n].needs) after[at(need)].push_back(static_cast<int>(n));
      if (waits[n] == 0) ready.push(static_cast<int>(n));
    }
    while (!ready.empty()) {
      const int node = ready.top();
      ready.pop();
      order.push_back(node);
      for (const int next : after[at(node)]) {
        if (--waits[at(next)] == 0) ready.push(next);
      }
    }
    DLRM_CHECK(order.size() == nodes_.size(), "{} operations wait for each other",
               nodes_.size() - order.size());
    return order;
  }

  void append(const Node& node, TimelineGraph& graph) {
    const QueuedOperation& first = queued()[at(node.members.front())];
    TimelineOperation operation;
    operation.kind = first.kind;
    operation.name = shown_name(first);
    operation.place = steps_.place(first.label);
    operation.collective = first.collective != 0;
    for (const int member : node.members) {
      const QueuedOperation& part = queued()[at(member)];
      if (part.stream < 0) continue;
      auto& streams = operation.streams;
      if (std::find(streams.begin(), streams.end(), part.stream) == streams.end()) {
        streams.push_back(part.stream);
      }
    }
    StepOperation step;
    step.step = std::max(operation.place.step, 0);
    step.rank = operation.collective ? -1 : operation.place.rank;
    const PartOfStep part =
        operation.collective
            ? part_of_collective(node, operation)
            : part_of(first, {operation.place, main_streams_.count(first.stream) > 0,
                              sent_[at(node.members.front())]});
    step.part = part.part;
    step.share = part.share;
    if (step.part == StepPart::kLookup && !pools_maxima(first, operation.place)) {
      step.share = sums_share(step);
    }
    graph.operations.push_back(std::move(operation));
    graph.graph.push_back(std::move(step));
  }

  /// Of the lookup of sums that is added next. Those that ShardedEmbeddings::lookup_work() does not
  /// name have no share.
  double sums_share(const StepOperation& lookup) {
    const size_t before = sums_[{lookup.rank, lookup.step}]++;
    const std::vector<double>& work = steps_.lookups[static_cast<size_t>(lookup.rank)].sums;
    return before < work.size() ? work[before] : 0;
  }

  /// Each lookup of maxima has an equal part of their work.
  void share_maxima(const std::vector<int>& place, TimelineGraph& graph) const {
    std::map<std::pair<int, int>, std::vector<StepOperation*>> lookups;  // by rank and step
    for (size_t n = 0; n < nodes_.size(); ++n) {
      StepOperation& one = graph.graph[at(place[n])];
      const QueuedOperation& first = queued()[at(nodes_[n].members.front())];
      if (one.part != StepPart::kLookup || !pools_maxima(first, steps_.place(first.label)))
        continue;
      lookups[{one.rank, one.step}].push_back(&one);
    }
    for (const auto& [of, all] : lookups) {
      const double work = steps_.lookups[at(of.first)].maxima;
      for (StepOperation* one : all) one->share = work / static_cast<double>(all.size());
    }
  }

  /// An exchange takes as long as the rank that sends most needs. That may be another rank than the
  /// one that sends most in all exchanges of a step together, of which the model knows the time.
  void share_vectors(const std::vector<int>& place, TimelineGraph& graph) const {
    std::map<int, std::map<int, double>> sent;  // by step and rank
    const auto for_each = [&](const auto& visit) {
      for (size_t n = 0; n < nodes_.size(); ++n) {
        StepOperation& exchange = graph.graph[at(place[n])];
        if (exchange.part == StepPart::kVectorExchange) visit(nodes_[n], exchange);
      }
    };
    const auto most = [](const std::map<int, double>& of_ranks) {
      double bytes = 0;
      for (const auto& rank : of_ranks) bytes = std::max(bytes, rank.second);
      return bytes;
    };
    for_each([&](const Node& node, StepOperation& exchange) {
      std::map<int, double> own;
      for (const int member : node.members) {
        const QueuedOperation& part = queued()[at(member)];
        if (part.name == "nccl send") own[steps_.place(part.label).rank] += part.bytes;
      }
      exchange.share = most(own);
      for (const auto& [rank, bytes] : own) sent[exchange.step][rank] += bytes;
    });
    for_each(
        [&](const Node&, StepOperation& exchange) { exchange.whole = most(sent[exchange.step]); });
  }

  /// If no sum has the gradients of data-parallel tables alone, the last one of a step has them
  /// besides others.
  void share_copies(TimelineGraph& graph) const {
    std::map<int, StepOperation*> last;
    std::set<int> apart;
    for (StepOperation& one : graph.graph) {
      if (one.part == StepPart::kCopySum) apart.insert(one.step);
      if (one.part == StepPart::kDenseSum) last[one.step] = &one;
    }
    for (const auto& [step, sum] : last) {
      if (apart.count(step) == 0) sum->share += copies_.planned - copies_.recorded;
    }
  }

  /// An exchange carries vectors before the loss, their gradients after it, and otherwise ids.
  /// Shares of sums are bytes; gradients of data-parallel tables alone have a size of their own.
  PartOfStep part_of_collective(const Node& node, TimelineOperation& operation) const {
    double bytes = 0;
    bool sum = false;
    for (const int member : node.members) {
      const QueuedOperation& part = queued()[at(member)];
      if (part.name == "nccl sum") {
        sum = true;
        bytes = part.bytes;
      }
    }
    operation.name = sum ? "sum" : "exchange";
    if (sum && bytes == copies_.recorded) return {StepPart::kCopySum, 1};
    if (sum) return {StepPart::kDenseSum, bytes};
    if (operation.place.stage == "backward") return {StepPart::kGradientExchange, 1};
    if (operation.place.stage == "lookup") return {StepPart::kVectorExchange, 1};
    return {StepPart::kIdExchange, 1};
  }

  const RecordedSteps& steps_;
  const SummedCopies copies_;
  std::set<int> main_streams_;  // on which the loss is computed
  std::map<std::pair<int, int>, bool> sent_of_step_;
  std::map<std::pair<int, int>, size_t> sums_;  // by rank and step: lookups of sums so far
  std::vector<bool> sent_;                      // by operation: before it
  std::vector<Node> nodes_;
  std::vector<int> node_of_;  // by operation
  std::map<uint64_t, int> collectives_;
};

}  // namespace

TimelineGraph timeline_graph(const RecordedSteps& steps, const SummedCopies& copies) {
  return Nodes(steps, copies).ordered();
}

}  // namespace dlrm::bench
