#include "timeline.h"

#include <algorithm>

#include "dlrm/core/error.h"
#include "dlrm/plan/routed_plan.h"

namespace dlrm::bench {
namespace {

/// The end of the last operation of a step.
double end_of(View<const StepOperation> graph, const std::vector<OperationTime>& times, int step) {
  double end = 0;
  for (size_t i = 0; i < graph.size(); ++i) {
    if (graph[i].step == step) end = std::max(end, times[i].end);
  }
  return end;
}

double seconds_of_last(View<const StepOperation> graph, const std::vector<OperationTime>& times,
                       int steps) {
  return end_of(graph, times, steps - 1) - end_of(graph, times, steps - 2);
}

/// Of the gradients of data-parallel tables, with a flag for each row.
double copies_bytes(const Plan& plan, const ModelConfig& model) {
  double floats = 0;
  for (const int t : plan.data_parallel) {
    const TableConfig& table = model.tables[static_cast<size_t>(t)];
    floats += static_cast<double>(table.rows) * static_cast<double>(table.dim + 1);
  }
  return 4 * floats;
}

}  // namespace

TimelineResult run_timeline(const TimelineOptions& options) {
  TimelineResult result;
  result.machine = read_machine(options.config.sharding.machine);
  PlanOptions plan_options;
  plan_options.rank_memory_bytes = options.device_memory;
  plan_options.ranks_per_node = result.machine.speed.ranks_per_node;
  plan_options.gpu = true;
  if (!result.machine.speed.gpu) {
    throw usage_error("{}: a timeline needs a machine with device cuda",
                      options.config.sharding.machine);
  }
  RunConfig config = with_known_device(options.config, plan_options);
  const RoutedPlan routed = make_routed_plan(config, options.ranks, plan_options);
  result.plan = routed.plan;
  config.routing.mode = routed.mode;
  RunConfig small = emulated_config(options);
  small.routing.mode = config.routing.mode;
  const Plan small_plan = emulated_plan(result.plan, config.model, small.model);
  result.emulated_batch = small.train.global_batch_size;
  const RecordedSteps steps = record_steps(small, small_plan);
  const int last = steps.steps - 1;
  result.counts = count_launches(steps, options.ranks, last);
  TimelineGraph graph = timeline_graph(
      steps, {copies_bytes(small_plan, small.model), copies_bytes(result.plan, config.model)});
  const auto time = [&](bool exchanges) {
    return time_operations(config, result.plan, plan_options, graph.graph, exchanges);
  };
  const std::vector<OperationTime> times = time(true);
  for (size_t i = 0; i < times.size(); ++i) {
    graph.operations[i].begin = times[i].begin;
    graph.operations[i].end = times[i].end;
    if (graph.graph[i].step == last && graph.operations[i].collective) {
      result.exchange += times[i].end - times[i].begin;
    }
  }
  result.begin = end_of(graph.graph, times, last - 1);
  result.end = end_of(graph.graph, times, last);
  result.exposed = std::max(
      0.0, (result.end - result.begin) - seconds_of_last(graph.graph, time(false), steps.steps));
  result.operations = std::move(graph.operations);
  result.graph = std::move(graph.graph);
  return result;
}

}  // namespace dlrm::bench
