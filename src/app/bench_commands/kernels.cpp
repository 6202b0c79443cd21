#include "bench/kernels.h"

#include <cstdio>
#include <fstream>

#include "dlrm/core/error.h"
#include "dlrm/train/machine.h"

#include "command.h"
#include "options.h"

namespace dlrm {
namespace {

// Of one size. Together, sizes are compared with the machine's memory.
constexpr int64_t kMostElements = int64_t{1} << 40;

struct KernelsArguments {
  bench::KernelOptions options;
  int threads = 0;
  std::string output;
};

void run_kernels(World& world, KernelsArguments& a) {
  const MachineShare share = machine_share(world.comm());
  a.options.threads = threads_for(a.threads, share);
  a.options.memory_bytes = share.memory_bytes;
  std::ofstream file;
  if (!a.output.empty()) {
    file.open(a.output);
    if (!file) throw usage_error("--output: {} cannot be written", a.output);
  }
  a.options.measured = [&](const bench::KernelLine& line) {
    if (!a.output.empty()) file << line.json << std::endl;
    fmt::print("{}\n", line.text);
    std::fflush(stdout);
  };
  bench::time_kernels(a.options);
  if (!a.output.empty() && !file) throw run_error("--output: {} could not be written", a.output);
}

}  // namespace

BenchCommand kernels_command(CLI::App& app) {
  const auto arguments = std::make_shared<KernelsArguments>();
  KernelsArguments& a = *arguments;
  CLI::App* command = app.add_subcommand(
      "kernels",
      "Times every operation, and compares it with a plain copy and plain matrix products.");
  command->footer(
      "A share is the time that the copies or products alone would take at the measured rates,\n"
      "divided by the operation's time. Each id counts as one row, even if a cache holds the row.\n"
      "Sizes that are not given fit the device. Each figure is printed, and its JSON line "
      "written,\n"
      "as soon as it is known. dlrm.bench.torch_kernels of the Python package times them in "
      "PyTorch.");
  const auto size = [&](const char* name, int64_t& value, const char* what) {
    command->add_option(name, value, what)->check(CLI::Range(int64_t{1}, kMostElements));
  };
  bench::KernelSizes& s = a.options.sizes;
  size("--batch", s.batch, "samples");
  size("--tables", s.tables, "tables that are looked up");
  size("--rows", s.rows, "rows of each table");
  size("--hotness", s.hotness, "ids of a bag (20)");
  size("--width", s.width, "width of rows and vectors (128)");
  size("--features", s.features, "vectors that interact with the dense one (26)");
  size("--matrix", s.matrix, "rows and columns of the plain product");
  size("--copied", s.copied, "bytes of the plain copy");
  size("--layer", s.layer, "inputs and outputs of the linear layer (1024)");
  size("--crossed", s.crossed, "columns of the cross layer (3456)");
  size("--rank", s.rank, "columns between the cross layer's two products (512)");
  size("--parameters", s.parameters, "of dense updates (16777216)");
  command->add_option("--variants", s.variants, "also time lookups of other shapes (true)");
  add_seconds(*command, a.options.seconds, "time spent on each figure (0.2)");
  command->add_option("--only", a.options.only, "only operations whose name contains this");
  add_device(*command, a.options.device, "cpu, cuda or auto (auto)");
  command->add_option("--tf32", a.options.tf32, "allow TF32 in fp32 products of a GPU (true)");
  add_threads(*command, a.threads);
  command->add_option("--output", a.output,
                      "write the figures to this file, one JSON object a line");
  return {command, [arguments](World& world) { run_kernels(world, *arguments); }};
}

}  // namespace dlrm
