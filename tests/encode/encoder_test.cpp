#include "dlrm/encode/encoder.h"

#include <cmath>
#include <cstring>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dlrm/core/hash.h"
#include "dlrm/encode/canonical.h"
#include "dlrm/encode/json_records.h"

#include "encode/gzip_bytes.h"
#include "error_of.h"

namespace dlrm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kHead =
    R"({"format": "dlrm-preprocessing", "version": 1, "missing": ["", "NA"],)"
    R"( "dense": [{"column": "age", "fill": 2.0, "clip": [0, 100], "log": true},)"
    R"( {"column": "price", "mean": 10.0, "deviation": 4.0}],)"
    R"( "sparse": [{"feature": "user", "column": "user", "values": "text", "encoding": "dictionary", "dictionary": "u"},)"
    R"( {"feature": "page", "column": "page", "values": "text", "encoding": "hash", "rows": 97, "fill": "none"},)"
    R"( {"feature": "item", "column": "item", "values": "integer", "encoding": "integers", "rows": 9, "fill": 8},)"
    R"( {"feature": "code", "column": "code", "values": "hex", "encoding": "dictionary", "dictionary": "c"},)"
    R"( {"feature": "tags", "column": "tags", "values": "text", "encoding": "dictionary", "dictionary": "u",)"
    R"( "list": {"separator": "|", "cap": 2, "keep": "last"}}],)"
    R"( "dictionaries": [{"name": "u", "values": "text", "count": 3}, {"name": "c", "values": "integer", "count": 2}]})";

template <class T>
std::string bytes_of(std::initializer_list<T> values) {
  return {reinterpret_cast<const char*>(std::data(values)), values.size() * sizeof(T)};
}

/// Texts a, 12 and the empty one; integers 255 and 2^32, which stands for an empty text.
std::string plain() {
  return std::string(kHead) + "\n" + bytes_of<uint32_t>({1, 2, 0}) + "a12" +
         bytes_of<int64_t>({255, int64_t{1} << 32});
}

Encoder encoder() { return Encoder(parse_preprocessing(gzip_bytes(plain()), "x.h5")); }

Value number(double number) { return {Value::Kind::kNumber, 0, number, {}}; }

/// A record of one field.
class OneField : public testing::Test {
 protected:
  std::vector<int64_t> ids(size_t feature, const std::string& value) {
    const Records records = record_of(encoder_.preprocessing().sparse[feature].column, value);
    std::vector<int64_t> found;
    encoder_.append_ids(feature, records.field(0, columns_.sparse(feature)), found);
    return found;
  }
  float dense(size_t column, const std::string& value) {
    const Records records = record_of(encoder_.preprocessing().dense[column].column, value);
    return encoder_.dense(column, records.field(0, columns_.dense(column)));
  }
  Records record_of(const std::string& name, const std::string& value) {
    Records records(columns_.size());
    append_record("{\"" + name + "\": " + value + "}", columns_, records);
    return records;
  }

  const Encoder encoder_ = encoder();
  const Columns columns_{encoder_.preprocessing(), {}};
};

TEST_F(OneField, NumbersAreFilledClippedAndScaled) {
  EXPECT_EQ(dense(0, "null"), static_cast<float>(std::log1p(2.0)));
  EXPECT_EQ(dense(0, R"(" NA ")"), static_cast<float>(std::log1p(2.0)));
  EXPECT_EQ(dense(0, "\"1e3\""), static_cast<float>(std::log1p(100.0)));
  EXPECT_EQ(dense(0, "-5"), 0);
  EXPECT_EQ(dense(1, "true"), static_cast<float>((1 - 10.0) / 4));
  EXPECT_EQ(dense(1, "12.5"), static_cast<float>((12.5 - 10) / 4));
  EXPECT_THAT(usage_error_of([&] { dense(1, "null"); }), HasSubstr("is missing"));
  EXPECT_EQ(usage_error_of([&] { dense(1, "\"1,5\""); }), "'1,5' is not a number");
  EXPECT_EQ(usage_error_of([&] { dense(1, "\"inf\""); }), "'inf' is not finite");
  EXPECT_THAT(usage_error_of([&] { dense(1, "1e300"); }), HasSubstr("is too large"));
}

TEST_F(OneField, OneValueHasOneIdInEverySpelling) {
  EXPECT_THAT(ids(0, "\"a\""), ElementsAre(1));
  for (const char* spelled : {"12", "12.0", "1.2e1", "\"12\"", "\"12.000\"", "\"1.2e1\""}) {
    EXPECT_THAT(ids(0, spelled), ElementsAre(2)) << spelled;
  }
  for (const char* missing : {"null", "\"\""}) EXPECT_THAT(ids(0, missing), ElementsAre(3));
  for (const char* unknown :
       {"\"b\"", "\"012\"", "\" 12\"", "12.5", "false", "99999999999999999999"}) {
    EXPECT_THAT(ids(0, unknown), ElementsAre(0)) << unknown;
  }
}

TEST_F(OneField, HashesAreOfTheCanonicalText) {
  const auto hashed = [](const std::string& text) {
    return static_cast<int64_t>(mix64(crc32(text.data(), text.size())) % 97);
  };
  EXPECT_THAT(ids(1, "-3.0"), ElementsAre(hashed("-3")));
  EXPECT_THAT(ids(1, "null"), ElementsAre(hashed("none")));
  EXPECT_THAT(ids(1, "18446744073709551616"), ElementsAre(hashed("18446744073709551616")));
  EXPECT_THAT(ids(1, "1e20"), ElementsAre(hashed("100000000000000000000")));
}

TEST_F(OneField, IntegersAreWithinTheirRows) {
  EXPECT_THAT(ids(2, "\" 7 \""), ElementsAre(7));
  EXPECT_THAT(ids(2, "7.0"), ElementsAre(7));
  EXPECT_THAT(ids(2, "\"NA\""), ElementsAre(8));
  EXPECT_EQ(usage_error_of([&] { ids(2, "9"); }), "9 is not from 0 to 8");
  EXPECT_EQ(usage_error_of([&] { ids(2, "-1"); }), "-1 is not from 0 to 8");
  EXPECT_EQ(usage_error_of([&] { ids(2, "7.5"); }), "7.5 is not a whole number");
  EXPECT_EQ(usage_error_of([&] { ids(2, "1e19"); }), "10000000000000000000 is not a whole number");
}

TEST_F(OneField, HexadecimalDigitsAreOneNumber) {
  EXPECT_THAT(ids(3, "\"ff\""), ElementsAre(1));
  EXPECT_THAT(ids(3, "\"00FF\""), ElementsAre(1));
  EXPECT_THAT(ids(3, "null"), ElementsAre(2));
  EXPECT_THAT(ids(3, "\"fe\""), ElementsAre(0));
  EXPECT_THAT(usage_error_of([&] { ids(3, "\"123456789\""); }), HasSubstr("hexadecimal"));
  EXPECT_THAT(usage_error_of([&] { ids(3, "\"-1\""); }), HasSubstr("hexadecimal"));
}

TEST_F(OneField, ListsAreCutAndKept) {
  EXPECT_THAT(ids(4, "[]"), ElementsAre());
  EXPECT_THAT(ids(4, "null"), ElementsAre());
  EXPECT_THAT(ids(4, R"("a|12.0|| |b|a")"), ElementsAre(0, 1));
  EXPECT_THAT(ids(4, R"(["a", "b", 12, null])"), ElementsAre(2, 3));
  EXPECT_THAT(ids(4, "12"), ElementsAre(2));
  EXPECT_THAT(usage_error_of([&] { ids(0, "[1]"); }), HasSubstr("needs one value"));
  EXPECT_THAT(usage_error_of([&] { ids(4, "[[1]]"); }), HasSubstr("tags: a list in a list"));
}

TEST(Preprocessing, DamageIsAnErrorThatNamesItsPlace) {
  const std::string whole = gzip_bytes(plain());
  EXPECT_NO_THROW(parse_preprocessing(whole, "x.h5"));
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_THAT(usage_error_of([&] { parse_preprocessing(whole.substr(0, size), "x.h5"); }),
                testing::StartsWith("x.h5: "));
  }
  for (size_t at = 10; at < whole.size(); ++at) {  // the header's time and system mean nothing
    if (at + 9 == whole.size()) continue;          // nor do bits after the last block
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 0x10);
    EXPECT_THAT(usage_error_of([&] { parse_preprocessing(changed, "x.h5"); }),
                testing::StartsWith("x.h5: "))
        << at;
  }
}

TEST(Preprocessing, AnotherDiffersUnlessItsDictionariesGrew) {
  const auto with = [](std::vector<std::pair<std::string, std::string>> changes) {
    std::string text = plain();
    for (const auto& [from, to] : changes) text.replace(text.find(from), from.size(), to);
    return parse_preprocessing(gzip_bytes(text), "x.h5");
  };
  const auto differs = [](const Preprocessing& newer, const Preprocessing& older) {
    return difference(newer, older, {"user", "page", "tags"});
  };
  const Preprocessing known = with({});
  const std::string lengths = bytes_of<uint32_t>({1, 2, 0}) + "a12";
  const std::string count = "\"count\": 3", four = "\"count\": 4";
  EXPECT_EQ(differs(with({}), known), "");
  const Preprocessing grown =
      with({{count, four}, {lengths, bytes_of<uint32_t>({1, 2, 0, 1}) + "a12b"}});
  EXPECT_EQ(differs(grown, known), "");
  EXPECT_EQ(differs(known, grown), "the dictionary of user");
  EXPECT_EQ(difference(known, grown, {"page"}), "") << "a feature that no one asked for differs";
  EXPECT_EQ(differs(with({{lengths, bytes_of<uint32_t>({2, 1, 0}) + "12a"}}), known),
            "the dictionary of user");
  EXPECT_EQ(
      differs(with({{count, four}, {lengths, bytes_of<uint32_t>({1, 1, 2, 0}) + "ba12"}}), known),
      "the dictionary of user");
  EXPECT_EQ(differs(with({{"\"rows\": 97", "\"rows\": 98"}}), known), "the number of rows of page");
  EXPECT_EQ(differs(with({{"\"mean\": 10.0", "\"mean\": 10.5"}}), known), "the mean of price");
  EXPECT_EQ(differs(with({{"\"NA\"", "\"N/A\""}}), known), "`missing` of the format");
  EXPECT_EQ(differs(with({{"\"cap\": 2", "\"cap\": 3"}}), known), "`list` of tags");
}

TEST(Preprocessing, OfSeveralFilesTheWidestIsFoundInAnyOrder) {
  const auto bytes_with = [](const std::string& lengths, const std::string& count) {
    std::string text = plain();
    const std::string before = bytes_of<uint32_t>({1, 2, 0}) + "a12";
    text.replace(text.find(before), before.size(), lengths);
    return gzip_bytes(text.replace(text.find("\"count\": 3"), 10, "\"count\": " + count));
  };
  const std::string one = bytes_with(bytes_of<uint32_t>({1}) + "a", "1"),
                    three = gzip_bytes(plain()),
                    other = bytes_with(bytes_of<uint32_t>({2, 1}) + "12a", "2");
  const FilePreprocessing none{"none.h5", ""}, small{"small.h5", one}, large{"large.h5", three};
  const std::vector<std::string> features = {"user"};
  EXPECT_EQ(widest({}, features).file, "");
  EXPECT_EQ(widest({none, small, none}, features).file, "small.h5");
  EXPECT_EQ(widest({small, large, small}, features).file, "large.h5");
  EXPECT_EQ(widest({large, small, none}, features).file, "large.h5");
  EXPECT_THAT(usage_error_of([&] {
                widest({small, large, {"other.h5", other}}, features);
              }),
              testing::StartsWith("other.h5: the dictionary of user is not that of large.h5"));
}

TEST(Preprocessing, NonsenseWithinIsAnError) {
  const auto error_with = [](const std::string& from, const std::string& to) {
    std::string text = plain();
    text.replace(text.find(from), from.size(), to);
    return usage_error_of([&] { parse_preprocessing(gzip_bytes(text), "x.h5"); });
  };
  EXPECT_EQ(error_with("\"version\": 1", "\"version\": 2"), "x.h5: is of a later version than 1");
  EXPECT_EQ(error_with("\"count\": 3", "\"count\": 4"), "x.h5: ends within a dictionary");
  EXPECT_EQ(error_with("\"count\": 2", "\"count\": 1"),
            "x.h5: has bytes after its last dictionary");
  EXPECT_EQ(error_with("\"dictionary\": \"c\"", "\"dictionary\": \"d\""),
            "x.h5: lacks the dictionary of d");
  EXPECT_EQ(error_with("\"dictionary\": \"c\"", "\"dictionary\": \"u\""),
            "x.h5: has a dictionary of another type for u");
  EXPECT_THAT(error_with("\"column\": \"age\"", "\"colum\": \"age\""), HasSubstr("first line"));
  EXPECT_THAT(error_with("\"hex\"", "\"octal\""), HasSubstr("octal"));
  EXPECT_EQ(error_with("a12", "\xff\x31\x32"), "x.h5: has a text that is not UTF-8");
  EXPECT_THAT(error_with("\"rows\": 97", "\"rows\": 0"), HasSubstr("without rows"));
}

TEST(Records, AreAsManyAsTheyMayBe) {
  const Columns columns(encoder().preprocessing(), {});
  // Fields that are no column do not count, whatever they hold.
  const std::string text =
      R"({"shared": {"age": 1}, "records": [{"more": [{}, {"a": [[], []]}]}, {}]})";
  EXPECT_EQ(read_records(text, columns, 2).records.size(), 2u);
  EXPECT_EQ(usage_error_of([&] { read_records(text, columns, 1); }),
            "a request has at most 1 samples");
}

TEST(Records, ABodyHasRecordsAndWhatTheyShare) {
  const Encoder all = encoder();
  const Columns columns(all.preprocessing(), {"key"});
  const SharedRecords read = read_records(
      R"({"shared": {"user": "a"}, "records": [{"key": "k\u00e9", "no": {"x": [1, {}]}}, {"user": null}]})",
      columns, 2);
  ASSERT_EQ(read.records.size(), 2u);
  ASSERT_EQ(read.shared.size(), 1u);
  const auto key = static_cast<size_t>(columns.find("key"));
  EXPECT_EQ(read.records.field(0, key).values[0].text, "ké");
  EXPECT_FALSE(read.records.has(0, columns.sparse(0)));
  EXPECT_TRUE(read.records.has(1, columns.sparse(0)));
  EXPECT_TRUE(read.shared.has(0, columns.sparse(0)));
  for (const char* wrong :
       {"", "[]", "{}", "{\"records\": 1}", "{\"records\": [1]}",
        "{\"records\": [{}], \"records\": []}", "{\"records\": [{\"user\": 1, \"user\": 2}]}",
        "{\"records\": [[]]}", "{\"records\": [{}]", "{\"records\": [{\"user\": {}}]}",
        "{\"shared\": [], \"records\": []}", "{\"records\": [{}]} x",
        "{\"records\": [{\"user\": 1e999}]}", "{\"records\": [{\"user\": \"\xff\"}]}"}) {
    EXPECT_NE(usage_error_of([&] { read_records(wrong, columns, 9); }), "") << wrong;
  }
}

TEST(Records, AKeyIsJsonWhateverItsValue) {
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<Value> values{number(1.5),  number(NAN), number(inf),
                                  number(-inf), {},          {Value::Kind::kText, 0, 0, "a\"b"}};
  EXPECT_EQ(json_text({.listed = true, .values = values}),
            R"([1.5, null, "inf", "-inf", null, "a\"b"])");
  EXPECT_EQ(json_text({.values = View<const Value>(values).subspan(2, 1)}), R"("inf")");
  EXPECT_EQ(json_text({.values = View<const Value>(values).subspan(1, 1)}), "null");
}

}  // namespace
}  // namespace dlrm
