// Everything that runs print and write, compared with a file: a line or a number that is lost or
// wrong shows as a difference. Times, rates and names of the machine are masked, and losses have
// two decimals. DLRM_UPDATE_RUNS=1 writes the file anew.
#include <cstdlib>
#include <regex>

#include "fixture.h"

namespace dlrm {
namespace {

class WholeRun : public SmallRun {
 protected:
  static std::string masked(std::string text) {
    const std::vector<std::pair<const char*, const char*>> masks = {
        {"(^|\n)\\d\\d:\\d\\d:\\d\\d ", "$1"},
        {"cpu: [^\n\"]*", "CPU"},
        {"[\\d.]+[kM]? samples/s", "RATE samples/s"},
        {"[\\d.]+ ms a step", "TIME ms a step"},
        {"  \\d+:\\d\\d(?=\n)", ""},
        {"(\"(samples_per_second|time|wall_seconds|mean|p50|p99|cpu_utilization|data_wait_share|"
         "comm|device_peak_bytes|process_peak_bytes|shared_peak_bytes|ended|started|host|version)"
         "\": )"
         "(\"[^\"]*\"|[\\d.e+-]+)",
         "$1..."},
        {"(\"stages_ms\": )\\{[^}]*\\}", "$1..."},
        {"(\\d\\.\\d\\d)\\d+", "$1"}};
    for (const auto& [pattern, with] : masks) {
      text = std::regex_replace(text, std::regex(pattern), with);
    }
    return text;
  }

  void run(const std::string& arguments, int ranks = 1) {
    const Outcome outcome = train(ranks, arguments);
    text_ += "### " + arguments + "\n" + masked(outcome.output) + "--- log\n" +
             masked(outcome.errors) + "--- ends with " + std::to_string(outcome.code) + "\n";
  }

  void show(const std::string& file) {
    text_ += "### " + file + "\n" + masked(read_file(path(file))) + "\n";
  }

  std::string text_;
};

TEST_F(WholeRun, PrintsAndWritesWhatIsInTheFile) {
  run("--resume --set train.steps=6 --set checkpoint.every_steps=4 --set checkpoint.at_end=true "
      "--set eval.every_steps=3 --set output.metrics_every=2");
  run("--resume --set train.steps=9 --set checkpoint.at_end=true --set eval.every_steps=3 "
      "--set checkpoint.keep_best=auc --set eval.slice_by=tiny");
  show("run/metrics.jsonl");
  show("run/summary.json");
  run("--resume --set train.steps=9");
  run("--eval-only --set output.directory=evaluated");
  show("evaluated/summary.json");
  run("--init-from=ckpt --set train.steps=2 --set output.directory=more --set data.test= "
      "--set checkpoint.directory=more_ckpt");
  run("--set train.steps=3 --set output.directory=two --set checkpoint.directory=two_ckpt "
      "--set sharding.strategy=row",
      2);
  show("two/metrics.jsonl");
  show("two/summary.json");
  for (const char* refused :
       {"--set train.steps=1", "--eval-only --set data.test=", "--predict p.csv --set data.test=",
        "--init-from=absent", "--resume=absent", "--resume --set model.bottom_mlp=[8]"}) {
    run(refused);
  }
  const auto file = source_folder() / "tests/end_to_end/whole_run.txt";
  if (std::getenv("DLRM_UPDATE_RUNS") != nullptr) write_file(file, text_);
  EXPECT_EQ(text_, read_file(file));
}

}  // namespace
}  // namespace dlrm
