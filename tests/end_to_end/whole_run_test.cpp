// Everything that programs print and write, compared with a file: a line or a number that is lost
// or wrong shows as a difference. Times, rates and names of the machine are masked, and losses have
// two decimals. DLRM_UPDATE_RUNS=1 writes the files anew.
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
        {"\\d+ MB/s", "RATE MB/s"},
        {"  \\d+:\\d\\d(?=\n)", ""},
        {"(\"(samples_per_second|time|wall_seconds|mean|p50|p99|cpu_utilization|data_wait_share|"
         "comm|device_peak_bytes|process_peak_bytes|shared_peak_bytes|ended|started|host|version)"
         "\": )"
         "(\"[^\"]*\"|[\\d.e+-]+)",
         "$1..."},
        {"(\"stages(_max)?_ms\": )\\{[^}]*\\}", "$1..."},
        {"(the SSD of )[^\n]* reads [^\n]*", "$1FOLDER reads RATE"},
        {"(host memory reads )[^\n]*", "$1RATE"},
        {"[\\d.]+ s(?=[ ,;\n])", "TIME s"},
        {"\\.[0-9a-f]{8}\\.tmp", ".TEMPORARY"},
        {"[0-9a-f]{32}", "HASH"}};
    for (const auto& [pattern, with] : masks) {
      text = std::regex_replace(text, std::regex(pattern), with);
    }
    return text;
  }
  static std::string two_decimals(const std::string& text) {
    return std::regex_replace(text, std::regex("(\\d\\.\\d\\d)\\d+"), "$1");
  }

  void add(const std::string& command, const Outcome& outcome) {
    text_ += "### " + command + "\n" + masked(outcome.output) + "--- log\n" +
             masked(outcome.errors) + "--- ends with " + std::to_string(outcome.code) + "\n";
  }
  void run(const std::string& arguments, int ranks = 1) {
    Outcome outcome = train(ranks, arguments);
    add(arguments, {outcome.code, two_decimals(outcome.output), two_decimals(outcome.errors)});
  }
  void run_program(const std::string& command) { add(command, run_command(command, path(""))); }

  void predict(const std::string& arguments) {
    const Outcome outcome = run_command("dlrm-infer ckpt " + arguments + " < lines", path(""));
    add(arguments, {outcome.code, two_decimals(outcome.output), outcome.errors});
  }

  void expect_what_is_in(const std::string& name) const {
    const auto file = source_folder() / "tests/end_to_end" / name;
    if (std::getenv("DLRM_UPDATE_RUNS") != nullptr) write_file(file, text_);
    EXPECT_EQ(text_, read_file(file));
  }

  void show(const std::string& file) {
    text_ += "### " + file + "\n" + two_decimals(masked(read_file(path(file)))) + "\n";
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
  expect_what_is_in("whole_run.txt");
}

TEST_F(WholeRun, PlansAndDatasetsAreToldAsInTheFile) {
  for (const char* words :
       {"--ranks 1",
        "--ranks 2 --output plan.json",
        "--ranks 5 --ranks-per-node 2",
        "--ranks 3 --set sharding.strategy=column --device-memory 0.5",
        "--ranks 2 --set sharding.tables.big=row --set sharding.tables.tiny=data_parallel",
        "--ranks 2 --set device=cuda --device-memory 0.6 --host-memory 1",
        "--ranks 2 --set train.global_batch_size=auto --device-memory 0.05",
        "--ranks 1 --device-memory 0.001",
        "--ranks 2 --set sharding.plan=plan.json",
        "--ranks 3 --set sharding.plan=plan.json",
        "--ranks 2 --scan-data",
        "--ranks 2 --set model.tables.big.rows=100000 --set memory.tier=cached "
        "--set memory.cached.fast=1% --scan-data --scan-batches 7",
        "--ranks 2 --set model.tables.big.rows=100000 --set memory.tier=cached "
        "--set memory.cached.fast=50% --set memory.cached.middle=60%",
        "--ranks 0",
        "--ranks 2 --device-memory=-1",
        "--ranks 2 --scan-batches=-1",
        "--ranks 2 --machine absent.json",
        "--ranks 2 --output absent/plan.json",
        "--ranks 2 --set model.tables.big.rows=0",
        "--ranks 2 --set trian.steps=1"}) {
    run_program(std::string("dlrm-plan config.yaml ") + words);
  }
  show("plan.json");
  for (const char* command :
       {"dlrm-plan absent.yaml --ranks 1", "dlrm-data inspect train.h5",
        "dlrm-data inspect absent.h5", "dlrm-data inspect config.yaml",
        "dlrm-data synth --samples 0 --config config.yaml --output more.h5",
        "dlrm-data synth --samples 70 --config config.yaml --output more.h5 --seed 3",
        "dlrm-data inspect more.h5", "dlrm-data shuffle more.h5 --output mixed.h5",
        "dlrm-data inspect mixed.h5", "dlrm-infer absent", "dlrm-infer . --batch-size 0",
        "dlrm-infer . --tables fp8"}) {
    run_program(command);
  }
  expect_what_is_in("whole_programs.txt");
}

TEST_F(WholeRun, PredictionsAreToldAsInTheFile) {
  run("--set train.steps=3 --set checkpoint.at_end=true --set eval.at_end=false");
  const std::string bags = "\"ids\": {\"tiny\": [1], \"middle\": [3, 499], \"left\": [4000], ";
  const std::string good = "{\"dense\": [1, 2, 3, 4], " + bags + "\"right\": [0, 7]}}";
  for (const std::string& line :
       {good, std::string("{}"), std::string("[1"), std::string("3"),
        "{\"dense\": [1, 2, 3], " + bags + "\"right\": [0, 7]}}",
        "{\"dense\": [1, 2, 3, \"x\"], " + bags + "\"right\": [0, 7]}}",
        "{\"dense\": [1, 2, 3, 4], " + bags + "\"right\": [0, 4001]}}",
        "{\"dense\": [1, 2, 3, 4], " + bags + "\"right\": [-1, 7]}}",
        "{\"dense\": [1, 2, 3, 4], " + bags + "\"right\": [0.5, 7]}}",
        "{\"dense\": [1, 2, 3, 4], " + bags + "\"other\": [0, 7]}}",
        "{\"dense\": [1, 2, 3, 4], " + bags + "\"right\": 7}}",
        "{\"dense\": [1, 2, 3, 4], \"more\": 1, " + bags + "\"right\": [0, 7]}}"}) {
    write_file(path("lines"), good + "\n" + line + "\n");
    text_ += line + "\n";
    predict("--threads 1");
  }
  for (const char* type : {"fp32", "bf16", "int8", "mapped"}) {
    write_file(path("lines"), good + "\n");
    predict(std::string("--threads 2 --tables ") + type);
  }
  expect_what_is_in("whole_predictions.txt");
}

}  // namespace
}  // namespace dlrm
