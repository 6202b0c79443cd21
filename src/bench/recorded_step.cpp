#include "recorded_step.h"

#include <map>
#include <tuple>

#include "dlrm/core/error.h"

#include "plan/simulate/resources.h"
#include "plan/simulate/step_work.h"

namespace dlrm::bench {
namespace {

constexpr StepPart kComputed[] = {
    StepPart::kLookup,          StepPart::kReceivedVectors,  StepPart::kSentGradients,
    StepPart::kForwardProducts, StepPart::kInputGradients,   StepPart::kWeightGradients,
    StepPart::kInteractForward, StepPart::kInteractBackward, StepPart::kSort,
    StepPart::kDenseUpdate,     StepPart::kCopyGradients,    StepPart::kCopyUpdate,
    StepPart::kSparseUpdate};
constexpr StepPart kExchanged[] = {StepPart::kVectorExchange, StepPart::kGradientExchange,
                                   StepPart::kDenseSum, StepPart::kCopySum};

void add(const Demand& more, Demand& sum) {
  sum.bytes += more.bytes;
  sum.flops += more.flops;
  sum.latency += more.latency;
}

Demand scaled(Demand demand, double by) {
  return {demand.bytes * by, demand.flops * by, demand.latency * by};
}

ExchangeWork scaled(const ExchangeWork& work, double by) {
  return {work.local_bytes * by, work.network_bytes * by};
}

/// The work of a part of a step, on a rank or of an exchange.
class PartWork {
 public:
  PartWork(const StepWork& work, const MachineSpeed& speed) : work_(work), speed_(speed) {}

  Demand of_rank(StepPart part, size_t r) const {
    const RankWork& rank = work_.ranks[r];
    switch (part) {
      case StepPart::kLookup:
        return {rank.forward_bytes, 0, rank.shards * speed_.shard / 2};
      case StepPart::kReceivedVectors:
        return {work_.pooled.empty() ? 0 : rank.received_bytes};
      case StepPart::kSentGradients:
        return {work_.gradients.empty() ? 0 : rank.packed_bytes};
      case StepPart::kForwardProducts:
      case StepPart::kWeightGradients:
        return products(rank, false);
      case StepPart::kInputGradients:
        return products(rank, true);
      case StepPart::kInteractForward:
        return pass(work_.dense.interact_forward, rank);
      case StepPart::kInteractBackward:
        return pass(work_.dense.interact_backward, rank);
      case StepPart::kSort:
        return {rank.sort_bytes};
      case StepPart::kDenseUpdate:
        return {work_.dense.update_bytes};
      case StepPart::kCopyGradients:
        return {work_.sums_copies() ? rank.copy_gradient_bytes : 0};
      case StepPart::kCopyUpdate:
        return {work_.sums_copies() ? rank.copy_update_bytes : 0};
      case StepPart::kSparseUpdate:
        return {rank.shard_updates(work_.sums_copies()), 0, rank.shards * speed_.shard / 2};
      default:
        return {};
    }
  }

  ExchangeWork of_exchange(StepPart part) const {
    switch (part) {
      case StepPart::kVectorExchange:
        return with_node_sums(work_.pooled);
      case StepPart::kGradientExchange:
        return with_node_sums(work_.gradients);
      case StepPart::kIdExchange:
        return work_.ids;
      case StepPart::kCopySum:
        return work_.replicas;
      case StepPart::kDenseSum: {
        ExchangeWork sum;
        for (const ExchangeWork& bucket : work_.buckets) sum += bucket;
        return sum;
      }
      default:
        return {};
    }
  }

 private:
  /// A layer of one output is no product on a GPU (kernels/one_output.h). Its work is shared out
  /// with that of the products, if there are any.
  Demand products(const RankWork& rank, bool input_gradients) const {
    Demand sum;
    bool any = false;
    for (const auto* list : {&work_.dense.bottom, &work_.dense.interaction, &work_.dense.top}) {
      for (const ProductWork& product : *list) {
        if (input_gradients && !product.input_gradient) continue;
        any |= product.outputs > 1;
        add(demand_of(product, work_.dense.element_bytes, rank.samples, speed_), sum);
      }
    }
    return any ? sum : Demand{};
  }

  ExchangeWork with_node_sums(ExchangeWork work) const {
    work.local_bytes += work_.node_sums.local_bytes;
    return work;
  }

  static Demand pass(const PassWork& pass, const RankWork& rank) {
    return {rank.samples * pass.bytes, rank.samples * pass.flops};
  }

  const StepWork& work_;
  const MachineSpeed& speed_;
};

bool is_exchange(StepPart part) { return part >= StepPart::kVectorExchange; }

/// The sum of the shares of a part's operations, by step and rank.
class Shares {
 public:
  explicit Shares(View<const StepOperation> operations) {
    for (const StepOperation& one : operations) sums_[key(one)] += one.share;
  }
  /// Of the work of its part.
  double of(const StepOperation& one) const {
    const double sum = one.whole > 0 ? one.whole : sums_.at(key(one));
    return sum > 0 ? one.share / sum : 0;
  }
  void require(StepPart part, int step, int rank) const {
    const auto found = sums_.find({part, step, rank});
    DLRM_CHECK(found != sums_.end() && found->second > 0,
               "no operation of step {} of rank {} does part {} of the model", step, rank,
               static_cast<int>(part));
  }

 private:
  using Key = std::tuple<StepPart, int, int>;
  static Key key(const StepOperation& one) { return {one.part, one.step, one.rank}; }

  std::map<Key, double> sums_;
};

void check_complete(const PartWork& work, const Shares& shares, int ranks, int steps) {
  for (int step = 0; step < steps; ++step) {
    for (const StepPart part : kComputed) {
      for (int r = 0; r < ranks; ++r) {
        const Demand demand = work.of_rank(part, static_cast<size_t>(r));
        if (demand.bytes > 0 || demand.flops > 0) shares.require(part, step, r);
      }
    }
    for (const StepPart part : kExchanged) {
      if (!work.of_exchange(part).empty()) shares.require(part, step, -1);
    }
  }
}

}  // namespace

std::vector<OperationTime> time_operations(const RunConfig& given, const Plan& plan,
                                           const PlanOptions& options,
                                           View<const StepOperation> operations, bool exchanges) {
  const RunConfig config = with_known_device(given, options);
  const SimulatedMachine given_machine = simulated_machine(config, plan.world, options);
  const SimulatedMachine machine = exchanges ? given_machine : given_machine.without_exchanges();
  const MachineSpeed& speed = machine.speed;
  const StepWork work = step_work(config, plan, options);
  EventRun run;
  const Resources resources(run, plan.world, machine);
  const PartWork parts(work, speed);
  const Shares shares(operations);
  int steps = 0;
  for (const StepOperation& one : operations) steps = std::max(steps, one.step + 1);
  check_complete(parts, shares, plan.world, steps);
  for (const StepOperation& one : operations) {
    EventRun::Work amount;
    if (is_exchange(one.part)) {
      amount = resources.exchange(scaled(parts.of_exchange(one.part), shares.of(one)));
    } else if (one.part == StepPart::kLaunch && one.rank < 0) {
      amount = resources.exchange({});
      amount.latency = speed.local_exchange;
    } else if (one.part != StepPart::kNone) {
      const auto rank = static_cast<size_t>(one.rank);
      amount = resources.compute(rank, scaled(parts.of_rank(one.part, rank), shares.of(one)));
    }
    run.add(run.add_lane(), amount, View<const int>(one.needs));
  }
  run.run();
  std::vector<OperationTime> times;
  for (int task = 0; task < run.tasks(); ++task) times.push_back({run.begin(task), run.end(task)});
  return times;
}

}  // namespace dlrm::bench
