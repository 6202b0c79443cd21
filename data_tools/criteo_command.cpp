#include <chrono>
#include <memory>

#include <CLI/CLI.hpp>

#include "dlrm/core/error.h"

#include "commands.h"
#include "criteo_convert.h"

namespace dlrm {
namespace {

constexpr const char* kCriteoNotes =
    "Input: tab-separated lines with label 0 or 1, 13 numbers, and 26 categories of up to 8\n"
    "hexadecimal digits. Numbers and categories may be missing. Gzip is recognised. Output: HDF5\n"
    "with label uint8, 13 dense floats log(x+1) (0 if x is missing or negative), and features C1\n"
    "to C26 of one id each. Values get ids from 0 in the order of their first appearance. A "
    "missing\n"
    "category is also a value. With --dictionary or --frequency-threshold ids begin at 1, and 0\n"
    "stands for out-of-vocabulary.";

/// Like CLI11's range checks, whose messages print bounds with 300 digits.
CLI::Validator at_least_one() {
  return CLI::Validator(
      [](std::string& text) {
        int64_t value = 0;
        const bool good = CLI::detail::lexical_cast(text, value) && value >= 1;
        return good ? std::string() : "needs a whole number of at least 1, not " + text;
      },
      "");
}

CLI::Validator between_zero_and_one() {
  return CLI::Validator(
      [](std::string& text) {
        double value = 0;
        const bool good = CLI::detail::lexical_cast(text, value) && value > 0 && value < 1;
        return good ? std::string() : "needs a number between 0 and 1, both excluded, not " + text;
      },
      "");
}

void print_report(const CriteoOptions& options, const CriteoReport& report, double seconds) {
  int64_t largest = 0, total = 0;
  for (const int64_t rows : report.feature_rows) {
    largest = std::max(largest, rows);
    total += rows;
  }
  fmt::print("{}: {} rows\n", options.output, report.rows - report.test_rows);
  if (report.test_rows > 0) fmt::print("{}: {} rows\n", options.test_output, report.test_rows);
  if (options.skip_malformed) fmt::print("malformed lines skipped: {}\n", report.skipped);
  fmt::print("table rows: {} in total, {} in the largest; by feature:", total, largest);
  for (const int64_t rows : report.feature_rows) fmt::print(" {}", rows);
  const double megabytes = static_cast<double>(report.text_bytes) * 1e-6;
  fmt::print("\n{:.1f} MB of text in {:.2f} s, {:.0f} MB/s\n", megabytes, seconds,
             megabytes / seconds);
}

void run_command(const CriteoOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  const CriteoReport report = convert_criteo(options);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  print_report(options, report, taken.count());
}

}  // namespace

void add_criteo_command(CLI::App& app) {
  auto options = std::make_shared<CriteoOptions>();
  CLI::App* command = app.add_subcommand("criteo", "Converts Criteo click logs to a dataset file.");
  command->footer(kCriteoNotes);
  command->add_option("inputs", options->inputs, "Logs, in order: IN.tsv or IN.tsv.gz")
      ->required()
      ->type_name("FILE");
  command->add_option("--output", options->output, "Dataset file to write")
      ->required()
      ->type_name("OUT.h5");
  command
      ->add_option("--test-output", options->test_output,
                   "Dataset file for the last rows, in their order (Criteo's logs are ordered by "
                   "time); needs --test-fraction")
      ->type_name("T.h5");
  command
      ->add_option("--test-fraction", options->test_fraction,
                   "Share of the rows that are written to --test-output; the inputs are read twice")
      ->type_name("F")
      ->check(between_zero_and_one());
  command
      ->add_option(
          "--dictionary", options->dictionary,
          "File of values and their ids. It is read if it exists, extended and written, so "
          "that further logs get the same ids")
      ->type_name("D.h5");
  command->add_flag("--frozen-dictionary", options->frozen_dictionary,
                    "Do not change the dictionary: new values get id 0");
  command
      ->add_option("--frequency-threshold", options->frequency_threshold,
                   "Values that occur less than N times in all inputs get id 0, unless the "
                   "dictionary has them; the inputs are read twice")
      ->type_name("N")
      ->check(at_least_one());
  command
      ->add_option("--max-rows", options->max_rows,
                   "Use no dictionary: the id of a value is its hash modulo N")
      ->type_name("N")
      ->check(at_least_one());
  command->add_flag("--skip-malformed", options->skip_malformed,
                    "Skip and count malformed lines instead of ending with an error");
  command
      ->add_option("--threads", options->threads,
                   "Number of threads, by default one per CPU; the output does not depend on it")
      ->type_name("N")
      ->check(at_least_one());
  command->callback([options] { run_command(*options); });
}

}  // namespace dlrm
