#include "comm/calls/progress_engine.h"

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

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

TEST(CallPool, GivesTheMemoryOfTheSameSizeAgain) {
  CallPool pool;
  void* small = pool.acquire(100);
  void* large = pool.acquire(200);
  pool.release(small, 100);
  pool.release(large, 200);
  EXPECT_EQ(pool.acquire(200), large);
  EXPECT_EQ(pool.acquire(100), small);
  pool.release(small, 100);
  pool.release(large, 200);
}

TEST(CallPool, FreesTheOldestOfMoreThan64Blocks) {
  CallPool pool;
  std::vector<void*> blocks;
  for (size_t i = 0; i < 65; ++i) blocks.push_back(pool.acquire(1000 + i));
  for (size_t i = 0; i < 65; ++i) pool.release(blocks[i], 1000 + i);
  for (size_t i = 64; i >= 1; --i) EXPECT_EQ(pool.acquire(1000 + i), blocks[i]) << i;
  for (size_t i = 1; i < 65; ++i) pool.release(blocks[i], 1000 + i);
}

TEST(CallPool, ALayoutIsZeroAgainForAnyNumberOfRanks) {
  CallPool pool;
  ExchangeLayout used = pool.acquire_layout(3);
  EXPECT_EQ(used.send_bytes, std::vector<int64_t>(3));
  const auto lists = [](ExchangeLayout& l) {
    return std::vector<std::vector<int64_t>*>{&l.send_bytes, &l.send_offsets, &l.receive_bytes,
                                              &l.receive_offsets};
  };
  for (auto* list : lists(used)) list->assign({5, 6, 7});
  const int64_t* memory = used.send_bytes.data();
  pool.release(std::move(used));
  ExchangeLayout again = pool.acquire_layout(2);
  EXPECT_EQ(again.send_bytes.data(), memory);
  for (auto* list : lists(again)) EXPECT_EQ(*list, std::vector<int64_t>(2));
}

TEST(CallPool, EachReleasedLayoutIsUsedAgainOnce) {
  CallPool pool;
  std::vector<ExchangeLayout> layouts;
  std::vector<const int64_t*> released, acquired;
  for (int i = 0; i < 3; ++i) layouts.push_back(pool.acquire_layout(4));
  for (ExchangeLayout& layout : layouts) {
    released.push_back(layout.receive_offsets.data());
    pool.release(std::move(layout));
  }
  layouts.clear();
  for (int i = 0; i < 3; ++i) {
    layouts.push_back(pool.acquire_layout(4));
    acquired.push_back(layouts.back().receive_offsets.data());
  }
  EXPECT_THAT(acquired, testing::UnorderedElementsAreArray(released));
}

TEST(CallPool, KeepsUpTo64Layouts) {
  CallPool pool;
  std::vector<ExchangeLayout> layouts;
  std::vector<const int64_t*> released;
  for (int i = 0; i < 66; ++i) layouts.push_back(pool.acquire_layout(4));
  for (ExchangeLayout& layout : layouts) {
    released.push_back(layout.send_bytes.data());
    pool.release(std::move(layout));
  }
  layouts.clear();
  for (size_t i = 64; i-- > 0;) {  // the last one first
    layouts.push_back(pool.acquire_layout(4));
    EXPECT_EQ(layouts.back().send_bytes.data(), released[i]) << i;
  }
}

TEST(CallPool, ACallsMemoryIsReusedByTheNext) {
  Calls calls;
  auto first = calls.make("a", 1);
  const void* memory = first.get();
  first.reset();
  EXPECT_EQ(calls.make("b", 1).get(), memory);
}

}  // namespace
}  // namespace dlrm::comm
