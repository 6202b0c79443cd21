#include "serve/batcher.h"

#include <atomic>
#include <filesystem>
#include <future>
#include <thread>

#include <gtest/gtest.h>

#include "saved_model.h"
#include "train/checkpoint_tensors.h"
#include "train/small_run.h"

namespace dlrm::serve {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

/// Samples [first, first + count).
Samples part(const Samples& all, int64_t first, int64_t count) {
  const int64_t features = 6, dense = 5;
  Samples samples;
  samples.size = count;
  samples.dense.assign(all.dense.begin() + first * dense,
                       all.dense.begin() + (first + count) * dense);
  for (int64_t bag = first * features; bag < (first + count) * features; ++bag) {
    const int64_t* ends = all.offsets.data() + bag;
    samples.ids.insert(samples.ids.end(), all.ids.begin() + ends[0], all.ids.begin() + ends[1]);
    samples.offsets.push_back(static_cast<int64_t>(samples.ids.size()));
  }
  return samples;
}

class Batching : public ::testing::Test {
 protected:
  void SetUp() override {
    evaluated_ = save_model(odd_model(), folder_.path());
    model_ = std::make_shared<TrainedModel>(folder_of(folder_.path()), LoadOptions{});
  }

  void expect_predicted(Batcher& batcher, int64_t first, int64_t count) {
    const std::vector<float> p = batcher.predict(part(evaluated_.samples, first, count));
    ASSERT_EQ(p.size(), static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) {
      EXPECT_NEAR(p[static_cast<size_t>(i)],
                  evaluated_.probabilities[static_cast<size_t>(first + i)], 1e-6);
    }
  }
  /// Clients that ask at the same time.
  void expect_all_predicted(Batcher& batcher, int64_t count) {
    std::vector<std::thread> clients;
    for (int64_t client = 0; client < count; ++client) {
      clients.emplace_back([&, client] {
        for (int64_t i = 0; i < 50; ++i)
          expect_predicted(batcher, client + i % 7, 1 + (client + i) % 5);
      });
    }
    for (std::thread& client : clients) client.join();
  }
  bool counted(const std::string& line) const {
    return counters_.text({}).find("\ndlrm_infer_" + line + "\n") != std::string::npos;
  }

  dlrm::testing::TemporaryFolder folder_;
  Evaluated evaluated_;
  std::shared_ptr<TrainedModel> model_;
  Counters counters_;
};

TEST_F(Batching, EachRequestGetsItsOwnProbabilities) {
  Batcher batcher(model_, 8, microseconds(200), counters_);
  expect_all_predicted(batcher, 6);
  EXPECT_TRUE(batcher.predict({}).empty());
}

/// More clients than batches, on several threads each, share the tables of one model.
TEST_F(Batching, BatchesPredictedAtTheSameTimeGiveEachRequestItsOwnProbabilities) {
  LoadOptions options;
  options.batches = 3;
  options.threads = 7;
  const auto model = std::make_shared<TrainedModel>(folder_of(folder_.path()), options);
  EXPECT_EQ(model->batches(), 3);
  EXPECT_EQ(model->table_bytes(), model_->table_bytes());
  Batcher batcher(model, 2, microseconds(0), counters_);
  expect_all_predicted(batcher, 8);
}

/// While a long batch is computed, another thread answers what arrives.
TEST_F(Batching, ARequestDoesNotWaitForABatchThatAnotherThreadAnswers) {
  LoadOptions options;
  options.threads = options.batches = 2;
  Batcher batcher(std::make_shared<TrainedModel>(folder_of(folder_.path()), options), 1,
                  microseconds(0), counters_);
  std::promise<void> second;
  std::promise<bool> first;
  batcher.predict(batcher.model(), part(evaluated_.samples, 0, 1),
                  [&](const std::vector<float>&, const std::exception_ptr&) {
                    const auto answered = second.get_future().wait_for(seconds(60));
                    first.set_value(answered == std::future_status::ready);
                  });
  expect_predicted(batcher, 1, 1);
  second.set_value();
  EXPECT_TRUE(first.get_future().get());
}

TEST_F(Batching, AFullBatchDoesNotWait) {
  Batcher batcher(model_, 4, seconds(100), counters_);
  std::vector<std::thread> clients;
  for (int64_t i = 0; i < 4; ++i) clients.emplace_back([&, i] { expect_predicted(batcher, i, 1); });
  for (std::thread& client : clients) client.join();
  EXPECT_TRUE(counted("batches_total 1"));
  EXPECT_TRUE(counted("samples_total 4"));
  expect_predicted(batcher, 0, 9);  // more than a batch, and not cut
  EXPECT_TRUE(counted("batches_total 2"));
}

TEST_F(Batching, ABatchHasAtMostItsSize) {
  Batcher batcher(model_, 5, milliseconds(300), counters_);
  std::vector<std::thread> clients;
  for (int64_t i = 0; i < 3; ++i) clients.emplace_back([&, i] { expect_predicted(batcher, i, 2); });
  for (std::thread& client : clients) client.join();
  EXPECT_TRUE(counted("batches_total 2"));
}

TEST_F(Batching, AnIncompleteBatchWaitsForItsTime) {
  Batcher batcher(model_, 100, milliseconds(150), counters_);
  const auto begin = std::chrono::steady_clock::now();
  expect_predicted(batcher, 0, 1);
  const auto passed = std::chrono::steady_clock::now() - begin;
  EXPECT_GE(passed, milliseconds(150));
  EXPECT_LT(passed, seconds(50));
}

TEST_F(Batching, TheEndAnswersThoseWhoWait) {
  auto batcher = std::make_unique<Batcher>(model_, 100, seconds(100), counters_);
  std::thread client([&, at = batcher.get()] { expect_predicted(*at, 3, 2); });
  std::this_thread::sleep_for(milliseconds(50));
  batcher.reset();
  client.join();
}

/// A mapped file that is cut short fails a batch. Each of its requests gets the error, and the
/// batcher goes on.
TEST_F(Batching, AnErrorIsTheAnswerToEachRequestOfItsBatch) {
  const dlrm::testing::TemporaryFolder other;
  RunConfig config = odd_model();
  config.model.tables[3].rows = 5000;  // more than a page
  const Evaluated evaluated = save_model(config, other.path());
  LoadOptions options;
  options.tables = TableType::kMapped;
  const std::string checkpoint = folder_of(other.path());
  Batcher batcher(std::make_shared<TrainedModel>(checkpoint, options), 3, seconds(100), counters_);
  for (const char* file : {"/rank_00000.h5", "/rank_00001.h5"}) {
    std::filesystem::resize_file(checkpoint + file, 0);
  }
  std::atomic<int> errors = 0;
  std::vector<std::thread> clients;
  for (int64_t i = 0; i < 3; ++i) {
    clients.emplace_back([&, i] {
      EXPECT_THROW(batcher.predict(part(evaluated.samples, i, 1)), Error);
      ++errors;
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(errors, 3);
  EXPECT_TRUE(counted("batches_total 0"));
  batcher.use(model_);
  expect_predicted(batcher, 0, 3);
  EXPECT_TRUE(counted("batches_total 1"));
}

TEST_F(Batching, ARequestIsPredictedByTheModelThatItWasMadeFor) {
  const std::string other = folder_.path("other");
  const Evaluated later = save_model(odd_model(), other, 6);
  const auto newer = std::make_shared<TrainedModel>(folder_of(other, 6), LoadOptions{});
  std::vector<float> answers[2];
  const auto into = [&](std::vector<float>& answer) {
    return [&](std::vector<float> p, const std::exception_ptr&) { answer = std::move(p); };
  };
  {
    Batcher batcher(model_, 8, seconds(100), counters_);
    batcher.predict(model_, part(evaluated_.samples, 0, 1), into(answers[0]));
    batcher.use(newer);
    batcher.predict(newer, part(evaluated_.samples, 0, 1), into(answers[1]));
  }
  EXPECT_GT(std::abs(later.probabilities[0] - evaluated_.probabilities[0]), 1e-5);
  EXPECT_NEAR(answers[0].at(0), evaluated_.probabilities[0], 1e-6);
  EXPECT_NEAR(answers[1].at(0), later.probabilities[0], 1e-6);
}

TEST_F(Batching, AnotherModelIsUsedFromTheNextBatchOn) {
  const std::string other = folder_.path("other");
  const Evaluated later = save_model(odd_model(), other, 6);
  Batcher batcher(model_, 1, microseconds(0), counters_);
  expect_predicted(batcher, 0, 5);
  batcher.use(std::make_shared<TrainedModel>(folder_of(other, 6), LoadOptions{}));
  EXPECT_EQ(batcher.model()->step(), 6);
  EXPECT_NE(later.probabilities, evaluated_.probabilities);
  evaluated_ = later;
  expect_predicted(batcher, 0, 5);
}

}  // namespace
}  // namespace dlrm::serve
