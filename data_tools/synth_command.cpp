#include <chrono>
#include <memory>

#include <CLI/CLI.hpp>

#include "dlrm/core/error.h"

#include "commands.h"
#include "synth_options.h"

namespace dlrm {
namespace {

constexpr const char* kSynthNotes =
    "With --config the samples have the dense features, tables, features and hotness of a "
    "training\n"
    "config, and the output is a dataset file. Dense values are U[0, 100). --criteo writes a "
    "click\n"
    "log in Criteo's format. Ids follow a power law. Without --teacher labels are random. With it\n"
    "they are drawn from a known model, and the best AUC that any model can reach is printed and\n"
    "written to OUTPUT.teacher.json. Equal seeds give the same infinite stream of samples.\n"
    "--first-sample selects another part of it.";

void run_command(const SynthOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  const SynthReport report = run_synth(options);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  const double megabytes = static_cast<double>(report.bytes) * 1e-6;
  fmt::print("{}: {} samples, label mean {:.4f}, {:.1f} MB in {:.2f} s, {:.0f} MB/s\n",
             options.output, options.samples, report.label_mean, megabytes, taken.count(),
             megabytes / taken.count());
  if (!options.teacher) return;
  fmt::print("best possible AUC {:.4f}\n", report.best_auc);
  fmt::print("AUC without the teacher's interactions {:.4f}\n", report.additive_auc);
}

}  // namespace

void add_synth_command(CLI::App& app) {
  auto options = std::make_shared<SynthOptions>();
  CLI::App* command =
      app.add_subcommand("synth", "Generates a dataset, optionally with labels of a known model.");
  command->footer(kSynthNotes);
  command->add_option("--samples", options->samples, "Number of samples")->required();
  command->add_option("--output", options->output, "File to write: OUT.h5 or OUT.tsv")->required();
  CLI::Option* config =
      command->add_option("--config", options->config, "Training config to generate data for");
  CLI::Option* criteo =
      command->add_flag("--criteo", options->criteo, "Criteo's format: 13 numbers, 26 categories");
  config->excludes(criteo);
  CLI::Option* alpha = command->add_option(
      "--alpha", options->alpha,
      "Exponent of the ids' power law; 0: uniform (default: the config's, otherwise 1.05)");
  command->add_option("--teacher", options->teacher,
                      "Seed of the model that labels are drawn from");
  CLI::Option* seed = command->add_option(
      "--seed", options->seed, "Seed of the samples (default: the config's, otherwise 1)");
  command->add_option("--first-sample", options->first_sample,
                      "Number of the first sample, from 0");
  command->add_option("--threads", options->threads, "Number of threads; 0: one per CPU");
  command->callback([=] {
    if (options->criteo != options->config.empty()) {
      throw usage_error("dlrm-data synth needs --config CONFIG or --criteo");
    }
    options->has_alpha = alpha->count() > 0;
    options->has_seed = seed->count() > 0;
    run_command(*options);
  });
}

}  // namespace dlrm
