#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dlrm/core/error.h"
#include "dlrm/data/dictionary_file.h"
#include "dlrm/hdf5/file.h"

#include "criteo_fixture.h"

namespace dlrm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class CriteoDictionary : public InFolder {
 protected:
  /// Writes a log whose C1 has the given values. Returns its name.
  std::string log(const std::string& name, const std::vector<std::string>& values) const {
    std::vector<LogLine> lines(values.size());
    for (size_t i = 0; i < values.size(); ++i) lines[i].categories[0] = values[i];
    write(name, text_of(lines));
    return name;
  }
  CriteoOptions with_dictionary(const std::string& input, const std::string& output) const {
    CriteoOptions o = options({input}, output);
    o.dictionary = path("d.h5");
    return o;
  }
  std::vector<int64_t> first_ids(const std::string& output) const {
    return read_converted(path(output)).ids[0];
  }
};

TEST_F(CriteoDictionary, TwoRunsGiveTheDictionaryOfOneRunOverBothFiles) {
  const std::vector<LogLine> first = generated_lines(4000, 1), second = generated_lines(4000, 2);
  write("a.tsv", text_of(first));
  write("b.tsv", text_of(second));
  convert(with_dictionary("a.tsv", "a.h5"));
  convert(with_dictionary("b.tsv", "b.h5"));
  CriteoOptions both = options({"a.tsv", "b.tsv"}, "both.h5");
  both.dictionary = path("d2.h5");
  convert(both);
  const Converted second_half = read_converted(path("b.h5")),
                  whole = read_converted(path("both.h5"));
  EXPECT_EQ(second_half.rows, whole.rows);
  for (size_t f = 0; f < 26; ++f) {
    EXPECT_EQ(second_half.ids[f],
              std::vector<int64_t>(whole.ids[f].begin() + 4000, whole.ids[f].end()));
  }
}

TEST_F(CriteoDictionary, AFrozenDictionaryMapsNewValuesToZeroAndStaysUnchanged) {
  convert(with_dictionary(log("a.tsv", {"0b", "0a"}), "a.h5"));
  CriteoOptions o = with_dictionary(log("b.tsv", {"0a", "0c", "", "0b"}), "b.h5");
  o.frozen_dictionary = true;
  convert(o);
  EXPECT_THAT(first_ids("b.h5"), ElementsAre(2, 0, 0, 1));
  EXPECT_EQ(read_converted(path("b.h5")).rows[0], 3);
  EXPECT_THAT(read_dictionary_file(path("d.h5"), {"C1"})[0].values, ElementsAre(0xb, 0xa));
}

TEST_F(CriteoDictionary, AThresholdAdmitsOnlyFrequentNewValues) {
  convert(with_dictionary(log("a.tsv", {"0b"}), "a.h5"));
  CriteoOptions o = with_dictionary(log("b.tsv", {"0c", "0d", "0b", "0d"}), "b.h5");
  o.frequency_threshold = 2;
  convert(o);
  EXPECT_THAT(first_ids("b.h5"), ElementsAre(0, 2, 1, 2));
  EXPECT_THAT(read_dictionary_file(path("d.h5"), {"C1"})[0].values, ElementsAre(0xb, 0xd));
}

TEST_F(CriteoDictionary, AMissingCategoryIsNotTheValueZero) {
  convert(with_dictionary(log("a.tsv", {"00000000", "", "0a"}), "a.h5"));
  const FeatureVocabulary first = read_dictionary_file(path("d.h5"), {"C1"})[0];
  EXPECT_THAT(first.values, ElementsAre(0, 0, 0xa));
  EXPECT_EQ(first.missing_id, 2);
  convert(with_dictionary(log("b.tsv", {"", "00000000"}), "b.h5"));
  EXPECT_THAT(first_ids("b.h5"), ElementsAre(2, 1));
}

TEST_F(CriteoDictionary, AFailedRunDoesNotChangeTheDictionary) {
  convert(with_dictionary(log("a.tsv", {"0b"}), "a.h5"));
  write("bad.tsv", "0\tnonsense\n");
  conversion_error(with_dictionary("bad.tsv", "bad.h5"));
  EXPECT_THAT(read_dictionary_file(path("d.h5"), {"C1"})[0].values, ElementsAre(0xb));
}

TEST_F(CriteoDictionary, TheSameLogGivesTheSameFile) {
  log("a.tsv", {"0b", "0a", ""});
  convert(with_dictionary("a.tsv", "a.h5"));
  CriteoOptions again = with_dictionary("a.tsv", "b.h5");
  again.dictionary = path("d2.h5");
  again.threads = 5;
  convert(again);
  EXPECT_EQ(content("d.h5"), content("d2.h5"));
}

TEST_F(CriteoDictionary, AnotherKindOfFileIsNamed) {
  log("a.tsv", {"0b"});
  write("d.h5", "not HDF5");
  EXPECT_THAT(conversion_error(with_dictionary("a.tsv", "out.h5")),
              HasSubstr("d.h5: not an HDF5 file"));
  convert(options({"a.tsv"}, "d.h5"));
  EXPECT_THAT(conversion_error(with_dictionary("a.tsv", "out.h5")),
              HasSubstr("d.h5: not a dictionary"));
  EXPECT_THAT([&] { read_dictionary_file(path("."), {"C1"}); },
              ThrowsMessage<Error>(path(".") + ": not an HDF5 file; expected a dictionary"));
}

TEST_F(CriteoDictionary, AFileThatCannotBeMadeIsNamed) {
  EXPECT_THAT(
      [&] { write_dictionary_file(path("none/d.h5"), {}); },
      ThrowsMessage<Error>(path("none/d.h5") + ": cannot create: No such file or directory"));
}

TEST_F(CriteoDictionary, AValueTwiceIsRefused) {
  log("a.tsv", {"0b"});
  std::vector<FeatureVocabulary> features;
  for (size_t f = 0; f < 26; ++f) features.push_back({criteo_feature_name(f), {7, 8}, 0});
  features[4].values = {9, 9};
  write_dictionary_file(path("d.h5"), features);
  EXPECT_THAT(conversion_error(with_dictionary("a.tsv", "out.h5")),
              HasSubstr("C5 holds the value 00000009 twice"));
}

TEST_F(CriteoDictionary, AMissingFeatureIsRefused) {
  log("a.tsv", {"0b"});
  write_dictionary_file(path("d.h5"), {{"C1", {7}, 0}});
  EXPECT_THAT(conversion_error(with_dictionary("a.tsv", "out.h5")),
              HasSubstr("there is no /C2/values"));
}

TEST_F(CriteoDictionary, AMissingIdOutOfRangeIsRefused) {
  log("a.tsv", {"0b"});
  for (const int64_t missing : {int64_t{-1}, int64_t{2}}) {
    std::vector<FeatureVocabulary> features;
    for (size_t f = 0; f < 26; ++f) features.push_back({criteo_feature_name(f), {7}, missing});
    write_dictionary_file(path("d.h5"), features);
    EXPECT_THAT(conversion_error(with_dictionary("a.tsv", "out.h5")),
                HasSubstr("missing_id from 0 to 1"));
  }
}

TEST_F(CriteoDictionary, FeaturesAreReadInAnyOrderAsTheyWereWritten) {
  const std::vector<FeatureVocabulary> written{
      {"C1", {}, 0}, {"C2", {9, 0}, 2}, {"C3", {5, 0xffffffffu, 0}, 1}};
  write_dictionary_file(path("d.h5"), written);
  const auto read = read_dictionary_file(path("d.h5"), {"C3", "C1", "C2", "C3"});
  ASSERT_EQ(read.size(), 4u);
  for (const auto& [at, from] :
       std::vector<std::pair<size_t, size_t>>{{0, 2}, {1, 0}, {2, 1}, {3, 2}}) {
    EXPECT_EQ(read[at].feature, written[from].feature);
    EXPECT_EQ(read[at].values, written[from].values);
    EXPECT_EQ(read[at].missing_id, written[from].missing_id);
  }
}

TEST_F(CriteoDictionary, AnotherVersionOrFirstIdIsRefused) {
  log("a.tsv", {"0b"});
  for (const char* name : {"version", "first_id"}) {
    convert(with_dictionary("a.tsv", "a.h5"));
    hdf5::File file = hdf5::File::open(path("d.h5"), hdf5::File::Access::kReadWrite);
    file.set_integer(name, 2);
    file.close();
    EXPECT_EQ(conversion_error(with_dictionary("a.tsv", "out.h5")),
              path("d.h5") + ": expected version 1 and first_id 1");
    std::filesystem::remove(path("d.h5"));
  }
}

TEST_F(CriteoDictionary, ValuesThatAreNotWrittenOrOfAnotherTypeOrShapeAreRefused) {
  log("a.tsv", {"0b"});
  for (const auto& [values, error] :
       {std::pair{"shape=(5,), dtype='u4'", ": /C1/values was not written wholly"},
        {"data=['a', 'b']",
         ": HDF5 cannot read /C1/values: no appropriate function for "
         "conversion path"},
        {"data=[[1, 2], [3, 4]], dtype='u4'", ": /C1/values must have one dimension"}}) {
    const std::string script =
        "import h5py; f = h5py.File('" + path("d.h5") +
        "', 'w'); f.attrs['format'] = 'dlrm-dictionary'; f.attrs['version'] = 1; "
        "f.attrs['first_id'] = 1; v = f.create_dataset('C1/values', " +
        values + "); v.attrs['missing_id'] = 0";
    ASSERT_EQ(std::system(("/usr/bin/python3 -c \"" + script + "\"").c_str()), 0);
    EXPECT_EQ(conversion_error(with_dictionary("a.tsv", "out.h5")), path("d.h5") + error);
  }
}

}  // namespace
}  // namespace dlrm
