// Messages whose fields are marked: who sees which words, whatever has become of the marks on the way.
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "core/base/error.h"
#include "core/base/plain_text.h"

namespace hopfeed {
namespace {

std::string as_option(std::string_view field) { return "--" + std::string(field); }

std::string with_options(std::string_view message) {
  return spelled(message, as_option, [](std::string_view field) { return std::string(field) + ".npy: "; });
}

TEST(MarkedMessages, EachReaderHasItsOwnSpelling) {
  const std::string message =
      marked_file("seeds") + "lower " + marked("batch_size") + ", or " + marked("walk.p");
  EXPECT_EQ(with_options(message), "seeds.npy: lower --batch_size, or --walk.p");
  EXPECT_EQ(spelled(message, as_option), "lower --batch_size, or --walk.p");
  EXPECT_EQ(unmarked(message), "lower batch_size, or walk.p");
}

TEST(MarkedMessages, AnError_KeepsThemBesideWhatPeopleRead) {
  const Error error(ErrorCode::kInvalid, marked("batch_size") + " is 0");
  EXPECT_STREQ(error.what(), "batch_size is 0");
  const Error wrapped(error.code(), "server a: " + error.message());
  EXPECT_STREQ(wrapped.what(), "server a: batch_size is 0");
  EXPECT_EQ(with_options(wrapped.message()), "server a: --batch_size is 0");
}

TEST(MarkedMessages, TextsWithoutMarks_StayAsTheyAre) {
  for (const char* text : {"", "batch_size is 0", "na\xc3\xafve", "\xef\xb7\xb2 and \xef\xb7\x8f",
                           "a\x02"
                           "b\x03"}) {
    EXPECT_EQ(with_options(text), text);
    EXPECT_EQ(unmarked(text), text);
  }
}

TEST(MarkedMessages, CutAnywhere_NothingOfAMarkIsLeft) {
  const std::string message = "lower " + marked("batch_size") + marked_file("seeds") + "!";
  for (std::size_t length = 0; length <= message.size(); ++length) {
    const std::string begin = message.substr(0, length), told = unmarked(begin);
    EXPECT_TRUE(std::string_view("lower batch_sizeseeds").starts_with(told) || told == "lower batch_size!")
        << told;
    EXPECT_TRUE(is_text(told, Lines::kOne)) << told;
    const std::string end = unmarked(message.substr(length));
    EXPECT_EQ(end.find(marked("x").front()), std::string::npos) << end;
  }
}

TEST(MarkedMessages, AroundWhatIsNoField_MarksAreDropped) {
  const std::string begin = marked("").substr(0, marked("").size() / 2),
                    end = marked("").substr(begin.size());
  for (const char* text : {"", "Walk", "a b", "--seed", "a\nb", "../x", "\x1b[2J", "\xc3\xa4"}) {
    EXPECT_EQ(with_options("<" + marked(text) + ">"), "<" + std::string(text) + ">");
    EXPECT_EQ(with_options("<" + marked_file(text) + ">"), "<" + std::string(text) + ">");
  }
  EXPECT_EQ(with_options(begin + begin + "p" + end + end), "--p");
  EXPECT_EQ(with_options(begin + "walk" + marked("p") + end), "walk--p");
  EXPECT_EQ(with_options(end + "p" + begin), "p");
}

TEST(MarkedMessages, WhatCleansTextsOfOthers_LeavesTheMarks) {
  const std::string message = marked_file("seeds") + marked("walk.p") + " is 0";
  EXPECT_TRUE(is_text(message, Lines::kOne));
  EXPECT_EQ(as_line(message, 1'000), message);
}

}  // namespace
}  // namespace hopfeed
