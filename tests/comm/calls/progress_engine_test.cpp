#include "comm/calls/progress_engine.h"

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "comm/calls/call.h"
#include "comm/calls/call_pool.h"

namespace dlrm::comm {
namespace {

/// A call that notes its steps in a list. It is done after `steps` of them.
class NotedCall final : public Call {
 public:
  NotedCall(std::shared_ptr<ProgressEngine> engine, std::string name, int steps,
            std::vector<std::string>& notes)
      : Call(std::move(engine)), name_(std::move(name)), steps_(steps), notes_(notes) {}
  void start() { engine().add(*this); }
  std::function<void()> during = [] {};

 private:
  bool step() override {
    notes_.push_back(name_);
    during();
    return --steps_ == 0;
  }
  const std::string name_;
  int steps_;
  std::vector<std::string>& notes_;
};

using Notes = std::vector<std::string>;

struct Calls {
  std::shared_ptr<ProgressEngine> engine = std::make_shared<ProgressEngine>(WaitPolicy::kSpin);
  Notes notes;

  std::unique_ptr<NotedCall> make(const std::string& name, int steps) {
    std::unique_ptr<NotedCall> call(new (call_pool_of(engine))
                                        NotedCall(engine, name, steps, notes));
    call->start();
    return call;
  }
};

TEST(ProgressEngine, StepsTheCallsInFlightFromTheLastToTheFirst) {
  Calls calls;
  const auto a = calls.make("a", 2), b = calls.make("b", 1), c = calls.make("c", 3);
  calls.engine->advance();
  EXPECT_EQ(calls.notes, (Notes{"c", "b", "a"}));
  EXPECT_EQ(calls.engine->monitor().progress(), 1u);
  EXPECT_TRUE(b->poll());  // without a step, since it is done
  EXPECT_EQ(calls.notes.size(), 3u);
  EXPECT_FALSE(c->poll());
  EXPECT_EQ(calls.notes, (Notes{"c", "b", "a", "c", "a"}));
  EXPECT_EQ(calls.engine->monitor().progress(), 2u);
  EXPECT_TRUE(c->poll());
  EXPECT_EQ(calls.notes.size(), 6u);
}

TEST(ProgressEngine, ACallMayEndOthersDuringItsStep) {
  Calls calls;
  auto a = calls.make("a", 9), b = calls.make("b", 9);
  const auto c = calls.make("c", 9), d = calls.make("d", 9);
  c->during = [&] { b.reset(); };
  calls.engine->advance();
  EXPECT_EQ(calls.notes, (Notes{"d", "c", "a"}));
  c->during = [&] { a.reset(); };
  calls.notes.clear();
  d->during = [&] { calls.engine->advance(); };  // does nothing
  calls.engine->advance();
  EXPECT_EQ(calls.notes, (Notes{"d", "c"}));
  EXPECT_EQ(calls.engine->monitor().progress(), 0u);
}

TEST(ProgressEngine, AFailedCallThrowsAtEachPollAndTheOthersGoOn) {
  Calls calls;
  const auto a = calls.make("a", 2), b = calls.make("b", 2);
  b->during = [] { throw std::runtime_error("no"); };
  EXPECT_FALSE(a->poll());
  EXPECT_EQ(calls.notes, (Notes{"b", "a"}));
  EXPECT_THROW(b->poll(), std::runtime_error);
  EXPECT_THROW(b->poll(), std::runtime_error);
  EXPECT_TRUE(a->poll());
  EXPECT_EQ(calls.notes, (Notes{"b", "a", "a"}));
  EXPECT_EQ(calls.engine->monitor().progress(), 2u);
}

TEST(ProgressEngine, ACallThatIsDestroyedTakesNoFurtherStep) {
  Calls calls;
  auto a = calls.make("a", 9);
  const auto b = calls.make("b", 9);
  a.reset();
  EXPECT_FALSE(b->poll());
  EXPECT_EQ(calls.notes, Notes{"b"});
  EXPECT_FALSE(calls.engine->abandoned());
  b->abandon();
  EXPECT_TRUE(calls.engine->abandoned());
  EXPECT_TRUE(b->abandoned());
}

}  // namespace
}  // namespace dlrm::comm
