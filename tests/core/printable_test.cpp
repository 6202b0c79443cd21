#include "dlrm/core/printable.h"

#include <gtest/gtest.h>

namespace dlrm::testing {
namespace {

TEST(Printable, ControlCharactersAreThoseBelowSpaceAndDel) {
  for (int byte = 0; byte < 256; ++byte) {
    const std::string text = {'a', static_cast<char>(byte), 'b'};
    const bool is_control = byte < 32 || byte == 127;
    EXPECT_EQ(has_control_character(text), is_control) << byte;
    EXPECT_EQ(printable(text, 3), is_control ? "a?b" : text) << byte;
  }
  EXPECT_FALSE(has_control_character(""));
}

TEST(Printable, OnlyLongerTextIsCut) {
  EXPECT_EQ(printable("abc", 3), "abc");
  EXPECT_EQ(printable("ab\ncd", 3), "ab?...");
  EXPECT_EQ(printable("", 0), "");
}

}  // namespace
}  // namespace dlrm::testing
