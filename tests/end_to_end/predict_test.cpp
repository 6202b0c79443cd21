#include <cmath>
#include <sstream>

#include "fixture.h"

namespace dlrm {
namespace {

struct Predictions {
  std::vector<int64_t> samples;
  std::vector<double> labels, probabilities;
};

Predictions read_csv(const std::filesystem::path& path) {
  Predictions result;
  std::istringstream text(read_file(path));
  std::string line;
  std::getline(text, line);
  EXPECT_EQ(line, "sample,label,probability");
  while (std::getline(text, line)) {
    long sample = 0;
    double label = 0, probability = 0;
    EXPECT_EQ(std::sscanf(line.c_str(), "%ld,%lf,%lf", &sample, &label, &probability), 3) << line;
    result.samples.push_back(sample);
    result.labels.push_back(label);
    result.probabilities.push_back(probability);
  }
  return result;
}

double log_loss(const Predictions& of) {
  double sum = 0;
  for (size_t i = 0; i < of.labels.size(); ++i) {
    sum -= std::log(of.labels[i] > 0 ? of.probabilities[i] : 1 - of.probabilities[i]);
  }
  return sum / static_cast<double>(of.labels.size());
}

class Predicting : public TrainedRun {
 protected:
  Outcome predict(int ranks, const std::string& file) const {
    return train(ranks, "--predict " + file + " --set output.directory=after");
  }
};

TEST_F(Predicting, AnyNumberOfRanksPredictsTheSameSamples) {
  const auto summary = nlohmann::json::parse(read_file(path("run/summary.json")));
  ASSERT_EQ(predict(1, "one.csv").code, 0);
  const Predictions one = read_csv(path("one.csv"));
  ASSERT_EQ(one.samples.size(), summary["eval"]["samples"]);
  for (size_t i = 0; i < one.samples.size(); ++i) ASSERT_EQ(one.samples[i], i);
  EXPECT_NEAR(log_loss(one), summary["eval"]["log_loss"].get<double>(), 1e-5);

  const Outcome outcome = predict(3, "three.csv");
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  const Predictions three = read_csv(path("three.csv"));
  EXPECT_EQ(three.samples, one.samples);
  EXPECT_EQ(three.labels, one.labels);
  for (size_t i = 0; i < one.samples.size(); ++i) {
    ASSERT_NEAR(three.probabilities[i], one.probabilities[i], 1e-6) << "sample " << i;
  }
}

TEST_F(Predicting, LabelsAreThoseOfTheData) {
  ASSERT_EQ(predict(2, "two.h5").code, 0);
  ASSERT_EQ(predict(2, "two.csv").code, 0);
  EXPECT_EQ(run_command("/usr/bin/python3 -c \"\n"
                        "import csv, h5py, numpy\n"
                        "p = h5py.File('two.h5'); test = h5py.File('test.h5')\n"
                        "assert (p['label'][:] == test['label'][:]).all()\n"
                        "rows = list(csv.reader(open('two.csv')))[1:]\n"
                        "text = numpy.array([float(row[2]) for row in rows], numpy.float32)\n"
                        "assert (p['probability'][:] == text).all()\n"
                        "assert (p['sample'][:] == numpy.arange(len(rows))).all()\n"
                        "\"",
                        folder_.path())
                .code,
            0);
}

TEST_F(Predicting, IsDoneWhetherTrainingEndsWithAnEvaluationOrNot) {
  const std::string without = " --set eval.at_end=false --set output.directory=";
  ASSERT_EQ(train(1, "--predict two.csv" + without + "predicted").code, 0);
  ASSERT_EQ(train(1, "--eval-only" + without + "evaluated").code, 0);
  for (const char* folder : {"predicted", "evaluated"}) {
    const auto summary = nlohmann::json::parse(read_file(path(folder) / "summary.json"));
    EXPECT_EQ(summary["eval"]["samples"], read_csv(path("two.csv")).samples.size()) << folder;
  }
}

TEST_F(Predicting, SlicesAreThoseOfAnyNumberOfRanks) {
  const auto slices_of = [&](int ranks) {
    const std::string folder = "sliced" + std::to_string(ranks);
    const Outcome outcome =
        train(ranks, "--eval-only --set eval.slice_by=tiny --set output.directory=" + folder);
    EXPECT_EQ(outcome.code, 0) << outcome.errors;
    EXPECT_NE(outcome.errors.find("  tiny 2: "), std::string::npos) << outcome.errors;
    return nlohmann::json::parse(read_file(path(folder + "/summary.json")))["eval"];
  };
  const auto one = slices_of(1), three = slices_of(3);
  EXPECT_EQ(one["by_id"]["feature"], "tiny");
  EXPECT_EQ(one["by_id"]["left_out"], 0);
  ASSERT_EQ(one["by_id"]["slices"].size(), 3);
  int64_t samples = 0;
  for (size_t i = 0; i < 3; ++i) {
    const auto &slice = one["by_id"]["slices"][i], other = three["by_id"]["slices"][i];
    samples += slice["samples"].get<int64_t>();
    EXPECT_EQ(other["id"], slice["id"]);
    EXPECT_EQ(other["samples"], slice["samples"]);
    EXPECT_NEAR(other["log_loss"].get<double>(), slice["log_loss"].get<double>(), 1e-5);
  }
  EXPECT_EQ(samples, one["samples"]);
}

TEST_F(Predicting, WithoutTestDataNothingIsEvaluated) {
  for (const auto& [options, error] :
       {std::pair{"--eval-only", "--eval-only: data.test names no file to evaluate on"},
        std::pair{"--predict p.csv", "--predict: data.test names no file to evaluate on"}}) {
    const Outcome outcome = train(1, std::string(options) + " --set data.test=");
    EXPECT_EQ(outcome.code, 2) << outcome.errors;
    EXPECT_EQ(error_line(outcome), std::string("error: ") + error);
  }
}

TEST_F(Predicting, BadNamesAreUsageErrors) {
  const Outcome outcome = predict(1, "p.txt");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(error_line(outcome), "error: --predict p.txt: the name must end in .csv or .h5");
  // The name is checked before any data is opened.
  EXPECT_EQ(error_line(train(1, "--predict p.txt --set data.test=absent.h5")), error_line(outcome));
  EXPECT_EQ(predict(1, "absent/p.csv").code, 2);
}

}  // namespace
}  // namespace dlrm
