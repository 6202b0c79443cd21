#include <chrono>
#include <memory>
#include <optional>

#include <CLI/CLI.hpp>

#include "dlrm/config/memory_size.h"
#include "dlrm/core/error.h"

#include "commands.h"
#include "shuffle.h"
#include "thread_option.h"

namespace dlrm {
namespace {

constexpr const char* kShuffleNotes =
    "The order depends only on the seed and the inputs, not on --memory or --threads. The disk of\n"
    "the output needs room for twice the inputs. After an interruption the same command continues\n"
    "from OUT.h5.shuffle, a folder that is removed at the end.";

CLI::Validator memory_size() {
  return CLI::Validator(
      [](std::string& text) {
        const std::optional<MemorySize> size = parsed_size(text);
        const bool good =
            size && !size->is_share && size->amount >= 0x1p20 && size->amount <= 0x1p50;
        if (!good) return "needs a size of at least 1MiB, such as 512MiB or 4GiB, not " + text;
        text = fmt::format("{:.0f}", size->amount);
        return std::string();
      },
      "SIZE");
}

CLI::Validator thread_count() {
  return CLI::Validator(
      [](std::string& text) {
        int value = 0;
        const bool good =
            CLI::detail::lexical_cast(text, value) && value >= 1 && value <= kMostToolThreads;
        return good ? std::string()
                    : fmt::format("needs a whole number from 1 to {}, not {}", kMostToolThreads,
                                  text);
      },
      "");
}

void run_command(const ShuffleOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  const ShuffleReport report = shuffle_dataset(options);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  if (report.resumed_at > 0) fmt::print("continued after {} samples\n", report.resumed_at);
  fmt::print(
      "{}: {} samples, {:.1f} MB, shuffled through {} bucket{} in {:.2f} s; sum of their hashes, "
      "before and after: {:016x}{:016x}\n",
      options.output, report.samples, static_cast<double>(report.bytes) * 1e-6, report.buckets,
      report.buckets == 1 ? "" : "s", taken.count(), report.sum_high, report.sum_low);
}

}  // namespace

void add_shuffle_command(CLI::App& app) {
  auto options = std::make_shared<ShuffleOptions>();
  CLI::App* command = app.add_subcommand(
      "shuffle", "Writes the samples of datasets of any size in a uniformly random order.");
  command->footer(kShuffleNotes);
  command->add_option("inputs", options->inputs, "Dataset files, or folders of them")
      ->required()
      ->type_name("IN.h5");
  command->add_option("--output", options->output, "Dataset file to write")
      ->required()
      ->type_name("OUT.h5");
  command->add_option("--memory", options->memory, "Memory to use (default: 4GiB)")
      ->transform(memory_size());
  command->add_option("--seed", options->seed, "Seed of the order (default: 1)")
      ->check(CLI::Validator(
          [](std::string& text) {
            const bool good = text.find_first_not_of("0123456789") == std::string::npos;
            return good ? std::string() : "needs a whole number of at least 0, not " + text;
          },
          ""));
  command
      ->add_option("--threads", options->threads,
                   "Number of threads, by default one per CPU; the output does not depend on it")
      ->check(thread_count());
  command->callback([=] { run_command(*options); });
}

}  // namespace dlrm
