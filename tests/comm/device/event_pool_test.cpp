#include "comm/device/event_pool.h"

#include <gtest/gtest.h>

namespace dlrm::comm {
namespace {

TEST(EventPool, GivesReleasedEventsAgainBeforeItMakesMore) {
  const auto device = make_cpu_device();
  EventPool pool(*device);
  auto first = pool.acquire(), second = pool.acquire();
  const Event* const events[] = {first.get(), second.get()};
  EXPECT_NE(events[0], events[1]);
  pool.release(std::move(first));
  pool.release(std::move(second));
  // They would take the places of events that were destroyed.
  const std::unique_ptr<Event> others[] = {device->make_event(), device->make_event()};
  auto third = pool.acquire(), fourth = pool.acquire();
  EXPECT_EQ(third.get(), events[1]);
  EXPECT_EQ(fourth.get(), events[0]);
  EXPECT_NE(pool.acquire(), nullptr);
}

}  // namespace
}  // namespace dlrm::comm
