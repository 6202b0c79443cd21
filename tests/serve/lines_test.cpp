#include "serve/lines.h"

#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "error_of.h"
#include "saved_model.h"
#include "train/checkpoint_tensors.h"
#include "train/small_run.h"

namespace dlrm::serve {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Pipe {
 public:
  Pipe() { EXPECT_EQ(::pipe(ends_), 0); }
  ~Pipe() {
    close_reader();
    close_writer();
  }
  int reader() const { return ends_[0]; }
  int writer() const { return ends_[1]; }
  void write(const std::string& text) {
    EXPECT_EQ(::write(ends_[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  void close_reader() { close(ends_[0]); }
  void close_writer() { close(ends_[1]); }

 private:
  static void close(int& file) {
    if (file >= 0) ::close(file);
    file = -1;
  }
  int ends_[2] = {-1, -1};
};

std::vector<std::string> texts(const std::vector<LineReader::Line>& lines) {
  std::vector<std::string> all;
  for (const auto& line : lines) all.push_back(std::string(line.text) + (line.cut ? "|" : ""));
  return all;
}

TEST(LineReader, LongLinesAreCut) {
  Pipe pipe;
  LineReader reader(pipe.reader(), 5);
  pipe.write("12345\n123456\n12\n");
  EXPECT_THAT(texts(reader.next(9)), ElementsAre("12345", "12345|", "12"));
  pipe.write("abcdefg");
  EXPECT_THAT(texts(reader.next(9)), ElementsAre("abcde|"));
  pipe.write("hijklmnopq");
  pipe.write("rst\nxyz\n");
  EXPECT_THAT(texts(reader.next(9)), ElementsAre("xyz"));
  pipe.write("abcdefg");
  EXPECT_THAT(texts(reader.next(9)), ElementsAre("abcde|"));
  pipe.close_writer();
  EXPECT_THAT(texts(reader.next(9)), ElementsAre());
}

TEST(LineReader, LinesMayBeLongerThanABlock) {
  Pipe pipe;
  LineReader reader(pipe.reader(), 1 << 20);
  std::vector<std::string> expected;
  for (const size_t size : {200'000, 3, 65'535, 65'536, 0, 131'072}) {
    expected.push_back(std::string(size, static_cast<char>('a' + expected.size())));
  }
  std::thread writer([&] {
    for (const std::string& line : expected) {
      // More than a pipe holds.
      const std::string text = line + "\n";
      for (size_t at = 0; at < text.size(); at += 10'000) pipe.write(text.substr(at, 10'000));
    }
    pipe.close_writer();
  });
  std::vector<std::string> lines;
  while (true) {
    const std::vector<std::string> some = texts(reader.next(2));
    if (some.empty()) break;
    EXPECT_LE(some.size(), 2u);
    lines.insert(lines.end(), some.begin(), some.end());
  }
  writer.join();
  EXPECT_TRUE(lines == expected);
}

/// The sample as a line.
std::string line_of(const RunConfig& config, const Samples& samples, int64_t s) {
  nlohmann::json object;
  const int64_t n = config.model.dense_features;
  for (int64_t d = 0; d < n; ++d) {
    object["dense"].push_back(samples.dense[static_cast<size_t>(s * n + d)]);
  }
  const Inputs inputs = inputs_of(config.model);
  const auto features = static_cast<int64_t>(inputs.features.size());
  for (int64_t f = 0; f < features; ++f) {
    const int64_t* bag = samples.offsets.data() + s * features + f;
    if (bag[0] == bag[1]) continue;
    object["ids"][inputs.features[static_cast<size_t>(f)].name] =
        std::vector<int64_t>(samples.ids.begin() + bag[0], samples.ids.begin() + bag[1]);
  }
  return object.dump() + "\n";
}

TEST(PredictLines, AnswersEachLineInOrder) {
  const dlrm::testing::TemporaryFolder folder;
  const RunConfig config = odd_model();
  const Evaluated evaluated = save_model(config, folder.path());
  TrainedModel model(folder_of(folder.path()), {});
  Pipe in, out;
  std::thread predicts([&] {
    predict_lines(model, {}, 4, in.reader(), out.writer());
    out.close_writer();
  });
  LineReader answers(out.reader(), 1000);
  for (int64_t s = 0; s < evaluated.samples.size; ++s) {
    // The first line of a pair is bad, and the answers must come before more is written.
    in.write("{\"dense\": []}\n" + line_of(config, evaluated.samples, s));
    std::vector<std::string> lines;
    while (lines.size() < 2) {
      for (std::string& line : texts(answers.next(2))) lines.push_back(line);
    }
    EXPECT_EQ(lines[0], R"({"error": "dense: 0 values; the model takes 5"})");
    const auto answer = nlohmann::json::parse(lines[1]);
    EXPECT_NEAR(answer.at("probability").get<double>(),
                evaluated.probabilities[static_cast<size_t>(s)], 1e-6);
  }
  in.close_writer();
  predicts.join();
  EXPECT_TRUE(answers.next(1).empty());
}

TEST(PredictLines, EveryTaskHasItsProbability) {
  const dlrm::testing::TemporaryFolder folder;
  RunConfig config = odd_model();
  config.model.tasks = {{"click", 1, {7, 1}}, {"buy", 1, {1}}};
  const Evaluated evaluated = save_model(config, folder.path());
  TrainedModel model(folder_of(folder.path()), {});
  Pipe in, out;
  in.write(line_of(config, evaluated.samples, 0) + "{\"dense\": []}\n" +
           line_of(config, evaluated.samples, 1));
  in.close_writer();
  predict_lines(model, {}, 4, in.reader(), out.writer());
  LineReader answers(out.reader(), 1000);
  const std::vector<std::string> lines = texts(answers.next(9));
  ASSERT_EQ(lines.size(), 3u);
  for (const size_t s : {0, 1}) {
    const auto answer = nlohmann::json::parse(lines[2 * s]).at("probability");
    EXPECT_EQ(answer.size(), 2u);
    EXPECT_NEAR(answer.at("click").get<double>(), evaluated.probabilities[2 * s], 1e-6);
    EXPECT_NEAR(answer.at("buy").get<double>(), evaluated.probabilities[2 * s + 1], 1e-6);
  }
}

TEST(PredictLines, ALineThatIsTooLongIsAnErrorAndTheNextIsAnswered) {
  const dlrm::testing::TemporaryFolder folder;
  save_model(odd_model(), folder.path());
  TrainedModel model(folder_of(folder.path()), {});
  Pipe in, out;
  std::thread writer([&] {
    const std::string part(1 << 16, ' ');
    for (int i = 0; i < 257; ++i) in.write(part);
    in.write("\n{\"dense\": [0, 0, 0, 0, 0]}\n");
    in.close_writer();
  });
  predict_lines(model, {}, 4, in.reader(), out.writer());
  writer.join();
  LineReader answers(out.reader(), 1000);
  const std::vector<std::string> lines = texts(answers.next(9));
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0], R"({"error": "the line is longer than 16777216 bytes"})");
  EXPECT_THAT(lines[1], HasSubstr("{\"probability\": 0."));
}

TEST(PredictLines, OutputsThatAreNotFiniteAreErrors) {
  const dlrm::testing::TemporaryFolder folder;
  RunConfig config = odd_model();
  save_model(config, folder.path());
  TrainedModel model(folder_of(folder.path()), {});
  Pipe in, out;
  in.write("{\"dense\": [3e38, -3e38, 3e38, -3e38, 3e38]}\n{\"dense\": [0, 0, 0, 0, 0]}\n");
  in.close_writer();
  predict_lines(model, {}, 4, in.reader(), out.writer());
  LineReader answers(out.reader(), 1000);
  const std::vector<std::string> lines = texts(answers.next(9));
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0], R"({"error": "the model's output is not finite"})");
  EXPECT_THAT(lines[1], HasSubstr("{\"probability\": 0."));
}

TEST(PredictLines, AnOutputThatCannotBeWrittenIsARunError) {
  const dlrm::testing::TemporaryFolder folder;
  save_model(odd_model(), folder.path());
  TrainedModel model(folder_of(folder.path()), {});
  Pipe in;
  in.write("{}\n");
  EXPECT_NE(run_error_of([&] { predict_lines(model, {}, 4, in.reader(), -1); }), "");
}

}  // namespace
}  // namespace dlrm::serve
