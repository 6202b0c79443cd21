#include <filesystem>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dlrm/core/error.h"
#include "dlrm/data/text_chunks.h"

#include "criteo_fixture.h"
#include "data_command.h"

namespace dlrm {
namespace {

using ::testing::HasSubstr;
using CriteoInput = InFolder;

/// The text of all chunks. Checks that each chunk ends with a line's end.
std::string read_chunks(const std::vector<std::string>& paths, int64_t chunk_bytes) {
  TextChunks chunks(paths, chunk_bytes);
  TextChunk chunk;
  std::string all;
  while (chunks.next(chunk)) {
    EXPECT_GT(chunk.size, 0);
    EXPECT_EQ(*(chunk.end() - 1), '\n');
    all.append(chunk.begin(), chunk.end());
  }
  EXPECT_EQ(chunks.bytes(), static_cast<int64_t>(all.size()));
  return all;
}

/// The last bytes of a file may hold many lines, which are read after the file's end.
TEST_F(CriteoInput, ChunksOfAnySizeHoldTheWholeText) {
  const std::string mixed = text_of(generated_lines(400, 1));
  std::string alike;
  for (int i = 0; i < 400; ++i) alike += text_of(generated_lines(1, 1));
  for (const std::string& text : {mixed, alike, alike + mixed, mixed + alike}) {
    write("a.gz", gzipped(text));
    write("a.tsv", text);
    write("b.tsv", text.substr(0, text.size() - 1));
    for (const int64_t bytes : {1, 7, 100, 1000, 4096, 1 << 20}) {
      EXPECT_EQ(read_chunks({path("a.gz")}, bytes), text) << bytes;
      EXPECT_EQ(read_chunks({path("a.tsv"), path("b.tsv")}, bytes), text + text) << bytes;
    }
  }
}

TEST_F(CriteoInput, ConsecutiveGzipMembersAreOneText) {
  std::string all, compressed;
  for (unsigned i = 0; i < 60; ++i) {
    const std::string text = text_of(generated_lines(i % 7 * 40, 3 + i));
    all += text;
    compressed += gzipped(text);
  }
  write("a.gz", compressed);
  write("padded.gz", compressed + std::string(1000, '\0'));
  EXPECT_EQ(read_chunks({path("a.gz")}, 1 << 16), all);
  EXPECT_EQ(read_chunks({path("padded.gz")}, 1 << 16), all);
}

TEST_F(CriteoInput, AGzipMemberMayBeginWithTheLastByteOfABlock) {
  constexpr size_t kBlock = size_t{1} << 18;  // that is read at once
  const std::string first = text_of(generated_lines(1000, 11));
  const std::string second = text_of(generated_lines(4000, 12)), more = gzipped(second);
  std::string member = gzipped(first);
  ASSERT_LT(member.size(), kBlock);
  ASSERT_GT(more.size(), kBlock);
  member[3] = 8;  // a name follows the header
  member.insert(10, std::string(kBlock - 2 - member.size(), 'n') + '\0');
  write("a.gz", member + more);
  EXPECT_EQ(read_chunks({path("a.gz")}, 1 << 20), first + second);
}

TEST_F(CriteoInput, GzipIsRecognisedByContentNotByName) {
  const std::string text = text_of(generated_lines(50, 4));
  write("plain.gz", text);
  write("packed.tsv", gzipped(text));
  EXPECT_EQ(read_chunks({path("plain.gz"), path("packed.tsv")}, 4096), text + text);
}

TEST_F(CriteoInput, TruncatedGzipIsNamed) {
  const std::string whole = gzipped(text_of(generated_lines(300, 5)));
  for (const size_t left : {size_t{3}, size_t{15}, whole.size() / 2, whole.size() - 9,
                            whole.size() - 8, whole.size() - 1}) {
    write("cut.tsv.gz", whole.substr(0, left));
    EXPECT_THAT(conversion_error(options({"cut.tsv.gz"}, "out.h5")),
                HasSubstr("cut.tsv.gz: gzip file is cut off"))
        << left;
  }
}

TEST_F(CriteoInput, DamagedGzipIsNamed) {
  std::string whole = gzipped(text_of(generated_lines(300, 6)));
  for (const size_t at : {whole.size() / 2, whole.size() - 6}) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x55);
    write("bad.tsv.gz", damaged);
    EXPECT_THAT(conversion_error(options({"bad.tsv.gz"}, "out.h5")), HasSubstr("bad.tsv.gz")) << at;
  }
  const auto error_with = [&](size_t at, char byte) {
    std::string damaged = whole;
    damaged[at] = byte;
    write("bad.tsv.gz", damaged);
    return conversion_error(options({"bad.tsv.gz"}, "out.h5"));
  };
  const std::string gzip = path("bad.tsv.gz") + ": damaged gzip file: ";
  EXPECT_EQ(error_with(whole.size() - 6, static_cast<char>(whole[whole.size() - 6] ^ 1)),
            gzip + "checksum differs");
  EXPECT_EQ(error_with(2, 7), gzip + "unknown compression method");
  EXPECT_EQ(error_with(10, 7), gzip + "invalid compressed data");  // a block of no type
  write("padded.tsv.gz", whole + std::string(10, '\0') + whole);
  EXPECT_THAT(conversion_error(options({"padded.tsv.gz"}, "out.h5")),
              HasSubstr("that are not gzip"));
  write("tail.tsv.gz", whole + "something");
  EXPECT_THAT(conversion_error(options({"tail.tsv.gz"}, "out.h5")), HasSubstr("not gzip"));
}

class MalformedLine : public InFolder {
 protected:
  /// The error of a log of `count` lines in which line `bad` (from 1) is `line`.
  std::string error_with(const std::string& line, size_t bad = 3, size_t count = 5) const {
    std::string text;
    const std::vector<LogLine> lines = generated_lines(count, 7);
    for (size_t i = 0; i < count; ++i) text += (i + 1 == bad ? line : lines[i].text()) + "\n";
    write("in.tsv", text);
    return conversion_error(options({"in.tsv"}, "out.h5"));
  }
};

TEST_F(MalformedLine, TooFewOrTooManyFieldsAreNamed) {
  const std::string good = generated_lines(1, 8)[0].text();
  EXPECT_THAT(error_with(good.substr(0, good.rfind('\t'))),
              HasSubstr("in.tsv:3: 39 fields; expected 40"));
  EXPECT_THAT(error_with(good + "\t"), HasSubstr("in.tsv:3: 41 fields"));
  EXPECT_THAT(error_with(""), HasSubstr("in.tsv:3: 1 field;"));
  EXPECT_THAT(error_with("0"), HasSubstr("in.tsv:3: 1 field;"));
  EXPECT_THAT(error_with("1\t"), HasSubstr("in.tsv:3: 2 fields;"));
  EXPECT_THAT(error_with("0\t1\t2"), HasSubstr("in.tsv:3: 3 fields;"));
}

TEST_F(MalformedLine, ABadFieldIsNamed) {
  for (const char* label : {"", "2", "-1", "01", "yes"}) {
    LogLine line;
    line.label = label;
    EXPECT_THAT(error_with(line.text()), HasSubstr(fmt::format("in.tsv:3: label '{}'", label)));
  }
  for (const size_t i : {size_t{0}, size_t{12}}) {
    LogLine number, category;
    number.numbers[i] = "nan";
    category.categories[2 * i + 1] = "123456789";
    EXPECT_THAT(error_with(number.text()), HasSubstr(fmt::format("in.tsv:3: I{} is 'nan'", i + 1)));
    EXPECT_THAT(error_with(category.text()),
                HasSubstr(fmt::format("in.tsv:3: C{} is '123456789'", 2 * i + 2)));
  }
}

TEST_F(MalformedLine, ALongFieldIsShownInPart) {
  LogLine line;
  line.numbers[1] = std::string(24, 'x');
  EXPECT_THAT(error_with(line.text()), HasSubstr("I2 is '" + std::string(24, 'x') + "';"));
  line.numbers[1] = std::string(24, 'x') + "y";
  EXPECT_THAT(error_with(line.text()), HasSubstr("I2 is '" + std::string(24, 'x') + "...';"));
  line.numbers[1] = "a\x01\x7f\xc3";
  EXPECT_THAT(error_with(line.text()), HasSubstr("I2 is 'a" + std::string(3, '?') + "';"));
}

TEST_F(MalformedLine, AnEndAsOnWindowsIsNoPartOfAField) {
  LogLine line;
  line.categories[25] = "123456789";
  EXPECT_THAT(error_with(line.text() + "\r"), HasSubstr("C26 is '123456789'; expected up to 8"));
  line.categories[25] = "1\r";
  EXPECT_THAT(error_with(line.text() + "\r"), HasSubstr("C26 is '1?'; expected up to 8"));
}

TEST_F(MalformedLine, TheErrorCountsLinesOfTheSecondFile) {
  write("a.tsv", text_of(generated_lines(20000, 9)));
  std::vector<LogLine> lines = generated_lines(30000, 10);
  lines[23456].label = "7";
  write("b.tsv", text_of(lines));
  CriteoOptions o = options({"a.tsv", "b.tsv"}, "out.h5");
  for (o.threads = 1; o.threads < 4; ++o.threads) {
    EXPECT_THAT(conversion_error(o), HasSubstr("b.tsv:23457: label '7'"));
  }
}

TEST_F(MalformedLine, OnRequestLinesAreSkippedAndCounted) {
  std::vector<LogLine> lines = generated_lines(20000, 11);
  write("good.tsv", text_of(lines));
  std::string text = "nonsense\n";
  for (const LogLine& line : lines) {
    text += line.text() + "\n";
    if (text.size() % 3 == 0) text += line.text().substr(1) + "\n";
  }
  const auto skipped = std::count(text.begin(), text.end(), '\n') - 20000;
  write("bad.tsv", text);
  convert(options({"good.tsv"}, "good.h5"));
  CriteoOptions o = options({"bad.tsv"}, "bad.h5");
  o.skip_malformed = true;
  const CriteoReport report = convert(o);
  EXPECT_EQ(report.rows, 20000);
  EXPECT_EQ(report.skipped, skipped);
  EXPECT_TRUE(read_converted(path("bad.h5")) == read_converted(path("good.h5")));
}

TEST_F(MalformedLine, AnInputOfMalformedLinesOnlyIsAnError) {
  write("in.tsv", "nonsense\nmore of it\n");
  CriteoOptions o = options({"in.tsv"}, "out.h5");
  o.skip_malformed = true;
  EXPECT_THAT(conversion_error(o), HasSubstr("no line is well-formed"));
}

TEST_F(MalformedLine, AnEndlessLineIsRefused) {
  write("in.tsv", std::string(static_cast<size_t>(TextChunks::kLongestLine) + 10, 'x'));
  EXPECT_THAT(conversion_error(options({"in.tsv"}, "out.h5")),
              HasSubstr("the line at byte 0 is longer"));
  const std::string good = generated_lines(1, 3)[0].text() + "\n";
  write("in.tsv", good + std::string(static_cast<size_t>(TextChunks::kLongestLine) + 10, 'x'));
  EXPECT_THAT(conversion_error(options({"in.tsv"}, "out.h5")),
              HasSubstr(fmt::format("in.tsv: the line at byte {} is longer than {} bytes",
                                    good.size(), TextChunks::kLongestLine)));
}

TEST_F(CriteoInput, AnEmptyFileIsNamed) {
  write("a.tsv", text_of(generated_lines(2, 12)));
  write("empty.tsv", "");
  EXPECT_THAT(conversion_error(options({"a.tsv", "empty.tsv"}, "out.h5")),
              HasSubstr("empty.tsv: the file is empty"));
}

TEST_F(CriteoInput, AMissingFileIsNamed) {
  EXPECT_THAT(conversion_error(options({"none.tsv"}, "out.h5")),
              HasSubstr("none.tsv: cannot open"));
}

class CriteoCommand : public InFolder {
 protected:
  /// What the command says to these arguments. Names of files are in the folder.
  std::string run(std::vector<std::string> arguments) {
    for (std::string& argument : arguments) {
      if (argument.ends_with(".tsv") || argument.ends_with(".h5")) argument = path(argument);
    }
    arguments.insert(arguments.begin(), "criteo");
    const DataCommand done = run_data_command(arguments);
    EXPECT_EQ(done.code, done.error.empty() ? 0 : 2);
    printed_ = done.output;
    return done.error;
  }

  std::string printed_;
};

TEST_F(CriteoCommand, OptionsThatExcludeOrNeedEachOtherAreRefused) {
  write("a.tsv", text_of(generated_lines(10, 13)));
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"a.tsv", "--output", "o.h5"});
    return run(more);
  };
  EXPECT_THAT(with({"--max-rows", "9", "--dictionary", "d.h5"}), HasSubstr("exclude"));
  EXPECT_THAT(with({"--max-rows", "9", "--frequency-threshold", "2"}), HasSubstr("exclude"));
  EXPECT_THAT(with({"--frozen-dictionary"}), HasSubstr("needs --dictionary"));
  EXPECT_THAT(with({"--frozen-dictionary", "--dictionary", "d.h5"}), HasSubstr("no such"));
  EXPECT_THAT(with({"--test-output", "t.h5"}), HasSubstr("need each other"));
  EXPECT_THAT(with({"--test-fraction", "0.1"}), HasSubstr("need each other"));
  EXPECT_THAT(with({"--test-output", "t.h5", "--test-fraction", "1"}),
              HasSubstr("between 0 and 1"));
  EXPECT_THAT(with({"--test-output", "o.h5", "--test-fraction", "0.1"}), HasSubstr("named twice"));
  EXPECT_THAT(with({"--dictionary", "a.tsv"}), HasSubstr("named twice"));
  EXPECT_NE(with({"--max-rows", "0"}), "");
  EXPECT_NE(with({"--threads", "-1"}), "");
  EXPECT_THAT(files(), ::testing::ElementsAre("a.tsv"));
}

TEST_F(CriteoInput, AnOutputThatIsAnInputUnderAnotherNameIsRefused) {
  write("a.tsv", text_of(generated_lines(10, 13)));
  std::filesystem::create_hard_link(path("a.tsv"), path("hard.h5"));
  std::filesystem::create_symlink(path("a.tsv"), path("soft.h5"));
  for (const char* output : {"./a.tsv", "x/../a.tsv", "hard.h5", "soft.h5"}) {
    EXPECT_EQ(conversion_error(options({"a.tsv"}, output)), path(output) + " is named twice");
  }
  CriteoOptions o = options({"a.tsv"}, "o.h5");
  o.dictionary = path("./o.h5");
  EXPECT_EQ(conversion_error(o), path("./o.h5") + " is named twice");
  o = options({"a.tsv"}, "x/../o.h5");
  o.dictionary = path("o.h5");
  EXPECT_EQ(conversion_error(o), path("o.h5") + " is named twice");
}

TEST_F(CriteoCommand, ReportsRowsOfFilesAndTables) {
  std::vector<LogLine> lines(10);
  for (size_t i = 0; i < lines.size(); ++i) {
    lines[i].categories[1] = std::to_string(i % 4);
    lines[i].categories[2] = std::to_string(i % 3);
  }
  write("a.tsv", text_of(lines) + "nonsense\n");
  EXPECT_EQ(run({"a.tsv", "--output", "o.h5", "--test-output", "t.h5", "--test-fraction", "0.3",
                 "--skip-malformed", "--threads", "2"}),
            "");
  for (const std::string& part :
       {path("o.h5") + ": 7 rows", path("t.h5") + ": 3 rows", std::string("lines skipped: 1"),
        std::string("31 in total, 4 in the largest; by feature: 1 4 3 1")}) {
    EXPECT_THAT(printed_, HasSubstr(part));
  }
  EXPECT_EQ(read_converted(path("o.h5")).labels.size(), 7u);
  EXPECT_EQ(read_converted(path("t.h5")).labels.size(), 3u);
}

TEST_F(CriteoCommand, NumbersBeyondTheirBoundsAreNamed) {
  write("a.tsv", text_of(generated_lines(10, 13)));
  for (const char* bad : {"0", "1", "-0.5", "1.5", "nan", "x"}) {
    EXPECT_THAT(run({"a.tsv", "--output", "o.h5", "--test-output", "t.h5",
                     std::string("--test-fraction=") + bad}),
                HasSubstr("--test-fraction: needs a number between 0 and 1"));
  }
  for (const std::string option : {"--frequency-threshold", "--max-rows", "--threads"}) {
    for (const char* bad : {"0", "1.5", "x"}) {
      EXPECT_THAT(run({"a.tsv", "--output", "o.h5", option + "=" + bad}), HasSubstr(option));
    }
    EXPECT_EQ(run({"a.tsv", "--output", "o.h5", option + "=1"}), "");
  }
  EXPECT_EQ(run({"a.tsv", "--output", "o.h5", "--max-rows=2147483647"}), "");
  EXPECT_THAT(run({"a.tsv", "--output", "o.h5", "--max-rows=2147483648"}), HasSubstr("--max-rows"));
  EXPECT_THAT(run({"--output", "o.h5"}), HasSubstr("inputs is required"));
  EXPECT_THAT(run({"a.tsv"}), HasSubstr("--output is required"));
  EXPECT_EQ(conversion_error(options({"."}, "p.h5")), path(".") + ": is a folder, not a file");
}

}  // namespace
}  // namespace dlrm
