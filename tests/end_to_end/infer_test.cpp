#include <sstream>

#include "fixture.h"

namespace dlrm {
namespace {

/// Writes the samples of test.h5 as lines of JSON.
constexpr const char* kWriteLines = R"(
import h5py, json
file = h5py.File("test.h5")
features = {}
for name, group in file["sparse"].items():
    ids, offsets = group["ids"][:].tolist(), group.get("offsets")
    if offsets is None:
        hotness = int(group["ids"].attrs["hotness"])
        offsets = range(0, len(ids) + 1, hotness)
    features[name] = ids, list(map(int, offsets))
with open("samples.jsonl", "w") as out:
    for i, dense in enumerate(file["dense"][:].tolist()):
        ids = {name: ids[offsets[i]:offsets[i + 1]] for name, (ids, offsets) in features.items()}
        print(json.dumps({"dense": dense, "ids": ids}), file=out)
)";

class Inferring : public SmallRun {
 protected:
  void SetUp() override {
    SmallRun::SetUp();
    ASSERT_EQ(train(2, "--set checkpoint.at_end=true").code, 0);
  }
  Outcome infer(const std::string& arguments) const {
    return run_command("dlrm-infer " + arguments, folder_.path());
  }
};

std::vector<double> predicted(const std::filesystem::path& csv) {
  std::istringstream text(read_file(csv));
  std::vector<double> all;
  std::string line;
  std::getline(text, line);
  while (std::getline(text, line)) all.push_back(std::stod(line.substr(line.rfind(',') + 1)));
  return all;
}

TEST_F(Inferring, EverySampleHasTheProbabilityOfPredict) {
  ASSERT_EQ(train(1, "--predict test.csv --set output.directory=after").code, 0);
  const std::vector<double> expected = predicted(path("test.csv"));
  ASSERT_EQ(expected.size(), 501u);
  write_file(path("lines.py"), kWriteLines);
  ASSERT_EQ(run_command("/usr/bin/python3 lines.py", folder_.path()).code, 0);
  for (const auto& [options, near] : {std::pair("", 1e-6),
                                      {"--tables fp32 --batch-size 7 --threads 1", 1e-6},
                                      {"--tables int8", 0.01},
                                      {"--tables bf16", 0.01}}) {
    const Outcome outcome =
        infer("ckpt " + std::string(options) + " < samples.jsonl > answers.jsonl");
    ASSERT_EQ(outcome.code, 0) << outcome.errors;
    const auto answers = read_lines(path("answers.jsonl"));
    ASSERT_EQ(answers.size(), expected.size());
    for (size_t i = 0; i < answers.size(); ++i) {
      ASSERT_NEAR(answers[i].at("probability").get<double>(), expected[i], near) << options;
    }
  }
}

TEST_F(Inferring, BadLinesAreAnsweredAndBadUsageEndsIt) {
  const Outcome lines = infer("ckpt/step_000000040 <<< '{\"dense\": [1]}'");
  EXPECT_EQ(lines.code, 0) << lines.errors;
  EXPECT_NE(lines.output.find("{\"error\": \"dense: 1 values; the model takes "),
            std::string::npos);
  EXPECT_EQ(infer("absent").code, 2);
  EXPECT_EQ(error_line(infer("absent")), "error: absent: there is no checkpoint");
  EXPECT_EQ(infer("ckpt/step_000000041").code, 2);
  EXPECT_EQ(infer("ckpt --tables int4").code, 2);
  EXPECT_EQ(infer("ckpt --batch-size 0").code, 2);
  EXPECT_EQ(infer("").code, 2);
  EXPECT_EQ(infer("ckpt <<< '{}' > /dev/full").code, 3);
  EXPECT_EQ(infer("--version").code, 0);
}

TEST_F(Inferring, DamagedCheckpointsAreNotUsed) {
  ASSERT_EQ(train(1, "--resume --set train.steps=41 --set checkpoint.at_end=true").code, 0);
  ASSERT_EQ(run_command("echo damaged >> ckpt/step_000000041/rank_00000.h5", folder_.path()).code,
            0);
  const Outcome older = infer("ckpt < /dev/null");
  EXPECT_EQ(older.code, 0);
  EXPECT_NE(older.errors.find("step 40"), std::string::npos) << older.errors;
  EXPECT_EQ(infer("ckpt/step_000000041 < /dev/null").code, 2);
}

}  // namespace
}  // namespace dlrm
