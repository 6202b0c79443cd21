#include "kernels_command.h"

#include <fmt/format.h>

#include "dlrm/core/error.h"
#include "dlrm/train/machine.h"

namespace dlrm::bench {
namespace {

std::shared_ptr<Device> device_for(const std::string& asked) {
  const bool there = built_with_cuda() && cuda_device_count() > 0;
  return asked == "cuda" || (asked == "auto" && there) ? make_cuda_device(0) : make_cpu_device();
}

}  // namespace

void KernelsCommand::declare(CLI::App& app) {
  command = app.add_subcommand(
      "kernels", "Times every operation beside a plain copy and plain matrix products.");
  command->footer(
      "A share is of the time that copying the bytes, or multiplying, would take at the measured\n"
      "rates; of ids, a row is counted for each even where caches hold it. Sizes that are not\n"
      "given fit the device. data_tools/torch_kernels.py times PyTorch's like.");
  KernelSizes& s = options.sizes;
  const auto size = [&](const char* name, int64_t& value, const char* what) {
    command->add_option(name, value, what)->check(CLI::PositiveNumber);
  };
  size("--batch", s.batch, "samples");
  size("--tables", s.tables, "tables that are looked up");
  size("--rows", s.rows, "rows of each table");
  size("--hotness", s.hotness, "ids of a bag (20)");
  size("--width", s.width, "width of rows and vectors (128)");
  size("--features", s.features, "vectors that interact with the dense one (26)");
  size("--matrix", s.matrix, "rows and columns of the plain product");
  size("--copied", s.copied, "bytes of the plain copy");
  command->add_option("--seconds", options.seconds, "time spent on each figure (0.2)")
      ->check(CLI::Range(0.0, 3600.0));
  command->add_option("--only", options.only, "operations whose name contains this");
  command->add_option("--device", device, "cpu, cuda or auto")
      ->check(CLI::IsMember({"cpu", "cuda", "auto"}));
  command->add_option("--tf32", tf32, "whether fp32 products on a GPU may use TF32 (true)");
  command->add_option("--threads", threads, "0: OMP_NUM_THREADS, or all CPUs")
      ->check(CLI::Range(0, 4096));
  command->add_option("--output", output, "write the JSON here");
}

std::string KernelsCommand::run(Communicator& comm) {
  if (comm.size() != 1) throw usage_error("kernels measures one process; mpirun started more");
  const std::shared_ptr<Device> on = device_for(device);
  const std::unique_ptr<Stream> stream = on->make_stream();
  CudaOpsOptions products;
  products.tf32 = tf32;
  const std::unique_ptr<Ops> ops =
      on->is_cpu() ? make_cpu_ops(*on, *stream, threads_for(threads, machine_share(comm)))
                   : make_cuda_ops(*on, *stream, products);
  options.sizes.fill_for(*on);
  const KernelResult result = time_kernels(*on, *stream, *ops, options);
  fmt::print("{}", to_table(result));
  return to_json(options, result);
}

}  // namespace dlrm::bench
