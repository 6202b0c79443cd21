#include "bench/infer.h"

#include "dlrm/train/machine.h"

#include "../write_output.h"
#include "bench/batch_sweep.h"
#include "command.h"
#include "options.h"

namespace dlrm {
namespace {

struct InferArguments {
  bench::InferOptions options;
  std::string batches = "1..128", types = "fp32,bf16,int8", rates = "1000,10000,max";
  int threads = 0;
  std::string output;
};

void run_infer(World& world, InferArguments& a) {
  const MachineShare share = machine_share(world.comm());
  a.options.batches = bench::parse_batches(a.batches);
  a.options.tables = bench::parse_tables(a.types);
  a.options.rates = bench::parse_rates(a.rates);
  a.options.threads = threads_for(a.threads, share);
  a.options.memory_bytes = share.memory_bytes;
  const bench::InferResult result = bench::run_infer(a.options);
  fmt::print("{}", bench::to_table(a.options, result));
  write_output(a.output, bench::to_json(a.options, result));
}

}  // namespace

BenchCommand infer_command(CLI::App& app) {
  const auto arguments = std::make_shared<InferArguments>();
  InferArguments& a = *arguments;
  CLI::App* command =
      app.add_subcommand("infer", "Times predictions by batch size and by rate of requests.");
  command->footer(
      "Ids are uniform. Batches follow one another. Requests have one sample each; they arrive at\n"
      "fixed times and are put together as in dlrm-infer. max: each client sends the next one at\n"
      "once.");
  command->add_option("CHECKPOINT", a.options.checkpoint, "as dlrm-infer takes it")->required();
  command->add_option("--batches", a.batches, "1..128 (doubling) or 1,8,64");
  command->add_option("--tables", a.types, "fp32,bf16,int8,mapped: one or more");
  command->add_option("--rates", a.rates, "requests per second: 1000,10000,max");
  command
      ->add_option("--batch-wait", a.options.batch_wait,
                   "microseconds that a request waits for others (100)")
      ->check(CLI::Range(int64_t{0}, int64_t{10000000}));
  command->add_option("--clients", a.options.clients, "threads that send requests (16)")
      ->check(CLI::Range(1, kMostThreads));
  add_seconds(*command, a.options.seconds, "time spent on each figure (1)");
  add_threads(*command, a.threads);
  add_output(*command, a.output);
  return {command, [arguments](World& world) { run_infer(world, *arguments); }};
}

}  // namespace dlrm
