#include "embedding/tiers/worker.h"

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "dlrm/core/error.h"

namespace dlrm {
namespace {

using ::testing::ElementsAre;

/// A worker and what became of its tasks.
class Workers : public ::testing::Test {
 protected:
  /// Posts a task that notes its number.
  void post_noted(int number) {
    worker_.post([this, number] { done_.push_back(number); });
  }
  /// Posts a task that runs until `end` is set.
  void post_held() {
    worker_.post([this] {
      begun_.set_value();
      end_.get_future().wait();
    });
    begun_.get_future().wait();
  }

  std::promise<void> begun_, end_;
  std::vector<int> done_;
  std::vector<std::string> errors_;
  Worker worker_{[this](const std::exception_ptr& error) {
    try {
      std::rethrow_exception(error);
    } catch (const Error& e) {
      errors_.push_back(e.what());
    }
  }};
};

TEST_F(Workers, RunTasksInTheirOrder) {
  for (int i = 0; i < 5; ++i) post_noted(i);
  worker_.wait_for(0);
  EXPECT_THAT(done_, ElementsAre(0, 1, 2, 3, 4));
  EXPECT_TRUE(worker_.has_at_most(0));
}

TEST_F(Workers, CountTheTaskThatRuns) {
  post_held();
  EXPECT_FALSE(worker_.has_at_most(0));
  EXPECT_TRUE(worker_.has_at_most(1));
  post_noted(1);
  EXPECT_FALSE(worker_.has_at_most(1));
  EXPECT_TRUE(worker_.has_at_most(2));
  worker_.wait_for(2);  // does not wait
  end_.set_value();
  worker_.wait_for(0);
  EXPECT_THAT(done_, ElementsAre(1));
}

TEST_F(Workers, DropOtherTasksAfterAnError) {
  const auto held = std::make_shared<int>();
  post_held();
  worker_.post([] { throw run_error("the disk is gone"); });
  worker_.post([this, held] { done_.push_back(*held); });
  end_.set_value();
  worker_.wait_for(0);
  worker_.post([this, held] { done_.push_back(*held); });
  worker_.wait_for(0);
  EXPECT_TRUE(worker_.has_at_most(0));
  worker_.stop();
  EXPECT_EQ(held.use_count(), 1) << "what the dropped tasks hold is free";
  EXPECT_TRUE(done_.empty());
  EXPECT_THAT(errors_, ElementsAre("the disk is gone"));
}

TEST_F(Workers, StopAfterTheTaskThatRuns) {
  post_held();
  post_noted(1);
  std::thread ending([&] { worker_.stop(); });
  // From then on tasks are dropped.
  size_t posted = 2;
  for (; posted < 10'000; ++posted) {
    post_noted(2);
    if (worker_.has_at_most(posted)) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_LT(posted, 10'000u);
  worker_.wait_for(0);  // does not wait, because they will not run
  end_.set_value();
  ending.join();
  EXPECT_TRUE(done_.empty());
  worker_.stop();
}

}  // namespace
}  // namespace dlrm
