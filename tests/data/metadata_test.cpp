// The metadata of datasets: what is read, and the error of each thing that is wrong.
#include <functional>
#include <map>

#include <gtest/gtest.h>
#include <hdf5.h>

#include "dlrm/hdf5/file.h"

#include "data/structure_reader.h"
#include "dataset_fixture.h"

namespace dlrm {
namespace {

using hdf5::Type;

struct Stored {
  Type type;
  hdf5::Shape shape;
  std::map<std::string, int64_t> attributes = {};
};

/// 10 samples in blocks of 4, with weights, a feature `a` of two ids and one of bags.
struct Metadata {
  std::string format = "dlrm-dataset";
  std::map<std::string, int64_t> root{{"version", 1}, {"samples", 10}, {"checksum_samples", 4}};
  std::map<std::string, Stored> columns{
      {"/label", {Type::kUint8, {10}}},
      {"/weight", {Type::kFloat32, {10}}},
      {"/dense", {Type::kFloat32, {10, 3}}},
      {"/sparse/a/ids", {Type::kInt32, {20}, {{"rows", 7}, {"hotness", 2}}}},
      {"/sparse/b/ids", {Type::kInt64, {6}, {{"rows", 9}}}},
      {"/sparse/b/offsets", {Type::kInt64, {11}}}};
  std::map<std::string, Stored> sums;

  Metadata() {
    for (const auto& [name, column] : columns) sums[name] = {Type::kUint32, {3}};
  }

  void write(const std::string& path) const {
    hdf5::File file = hdf5::File::create(path);
    if (!format.empty()) file.set_fixed_text("format", format);
    for (const auto& [name, value] : root) file.set_integer(name, value);
    for (const auto& [name, column] : columns) {
      hdf5::Dataset made = file.create_dataset(name, column.type, column.shape);
      for (const auto& [attribute, value] : column.attributes) made.set_integer(attribute, value);
    }
    for (const auto& [name, column] : sums) {
      file.create_dataset("/checksums" + name, column.type, column.shape);
    }
    file.close();
  }
};

class ReadMetadata : public ::testing::Test {
 protected:
  DatasetStructure read(const std::function<void(Metadata&)>& change = [](Metadata&) {}) const {
    Metadata metadata;
    change(metadata);
    metadata.write(path_);
    return StructureReader(path_).read();
  }
  void expect(const std::string& text, const std::function<void(Metadata&)>& change) const {
    EXPECT_EQ(usage_error_of([&] { read(change); }), path_ + ": " + text);
  }

  TemporaryFolder folder_;
  const std::string path_ = folder_ / "a.h5";
};

TEST_F(ReadMetadata, OfTheRootMustBeRight) {
  const std::string other = "not a dataset: its root has no attribute format = \"dlrm-dataset\"";
  expect(other, [](auto& m) { m.format = "other"; });
  expect(other, [](auto& m) { m.format.clear(); });
  for (const char* name : {"version", "samples"}) {
    expect(fmt::format("/ has no attribute {}", name), [&](auto& m) { m.root.erase(name); });
  }
  for (const int64_t version : {0, 2}) {
    expect(fmt::format("dataset version {}; this program reads version 1", version),
           [&](auto& m) { m.root["version"] = version; });
  }
  for (const int64_t samples : {9, 11}) {
    expect(fmt::format("/label has 10 elements, attribute samples says {}", samples),
           [&](auto& m) { m.root["samples"] = samples; });
  }
}

TEST_F(ReadMetadata, OfLabelsTellsTheirNumber) {
  EXPECT_EQ(read().num_labels, 1);
  for (const int64_t labels : {1, 3}) {
    const auto several = [&](auto& m) { m.columns.at("/label").shape = {10, labels}; };
    EXPECT_EQ(read(several).num_labels, labels);
  }
  for (const auto& [shape, shown] :
       {std::pair(hdf5::Shape{10, 0}, "[10, 0]"), {{10, 1, 1}, "[10, 1, 1]"}, {{}, "[]"}}) {
    expect(fmt::format("/label has shape {}; it must be [samples] or [samples, labels]", shown),
           [&](auto& m) { m.columns.at("/label").shape = shape; });
  }
}

TEST_F(ReadMetadata, OfColumnsMustBeRight) {
  const auto type = [&](const std::string& name, Type wrong, const std::string& right) {
    expect(name + " must hold " + right, [&](auto& m) { m.columns.at(name).type = wrong; });
  };
  type("/label", Type::kInt32, "uint8 or float32");
  type("/weight", Type::kUint8, "float32");
  type("/dense", Type::kInt32, "float32");
  type("/sparse/a/ids", Type::kUint32, "int32 or int64");
  type("/sparse/b/ids", Type::kFloat32, "int32 or int64");
  type("/sparse/b/offsets", Type::kInt32, "int64");

  const auto shape = [&](const std::string& name, const hdf5::Shape& wrong,
                         const std::string& text) {
    expect(name + " " + text, [&](auto& m) { m.columns.at(name).shape = wrong; });
  };
  for (const auto& [name, column] : Metadata().columns) {
    if (name == "/label") continue;
    const size_t needed = column.shape.size();
    const hdf5::Shape other = needed == 1 ? hdf5::Shape{10, 1} : hdf5::Shape{10};
    shape(name, other, fmt::format("has {} dimensions, {} needed", other.size(), needed));
  }
  for (const int64_t length : {9, 11}) {
    for (const char* name : {"/label", "/weight"}) {
      shape(name, {length}, fmt::format("has {} elements, attribute samples says 10", length));
    }
    shape("/dense", {length, 3},
          fmt::format("has shape [{}, 3], its first dimension must be 10 (samples)", length));
    shape("/sparse/b/offsets", {length + 1},
          fmt::format("has {} elements, samples + 1 = 11 are needed", length + 1));
  }
  for (const int64_t count : {19, 21, 10, 22, 18}) {
    shape("/sparse/a/ids", {count},
          fmt::format("holds {} ids; 10 samples of hotness 2 need another number", count));
  }
  for (const int64_t hotness : {-2, -1, 0, 1, 3}) {
    expect(fmt::format("/sparse/a/ids holds 20 ids; 10 samples of hotness {} need another number",
                       hotness),
           [&](auto& m) { m.columns.at("/sparse/a/ids").attributes["hotness"] = hotness; });
  }
}

TEST_F(ReadMetadata, OfAllColumnsMustBeThere) {
  for (const char* name : {"/label", "/dense", "/sparse/b/ids"}) {
    expect(fmt::format("there is no dataset {}", name), [&](auto& m) { m.columns.erase(name); });
  }
  for (const char* name : {"a", "b"}) {
    const std::string ids = fmt::format("/sparse/{}/ids", name);
    expect(ids + " has no attribute rows",
           [&](auto& m) { m.columns.at(ids).attributes.erase("rows"); });
  }
  expect("/sparse/a must have either attribute hotness on its ids or offsets",
         [](auto& m) { m.columns.at("/sparse/a/ids").attributes.erase("hotness"); });
  expect("/sparse/b must have either attribute hotness on its ids or offsets, not both",
         [](auto& m) { m.columns.at("/sparse/b/ids").attributes["hotness"] = 1; });
  expect("cannot list /sparse (it must be a group)", [](auto& m) {
    for (const char* name : {"a/ids", "b/ids", "b/offsets"}) {
      m.columns.erase(std::string("/sparse/") + name);
      m.sums.erase(std::string("/sparse/") + name);
    }
    m.columns["/sparse"] = {Type::kInt32, {3}};
  });
}

TEST_F(ReadMetadata, OfChecksumsMustBeRightForEachColumn) {
  for (const auto& [name, ignored] : Metadata().columns) {
    const std::string sums = "/checksums" + name;
    expect("there is no dataset " + sums, [&](auto& m) { m.sums.erase(name); });
    const std::string wrong = sums + " must hold 3 numbers uint32, one for each block of 4 samples";
    for (const int64_t blocks : {2, 4}) {
      expect(wrong, [&](auto& m) { m.sums.at(name).shape = {blocks}; });
    }
    expect(wrong, [&](auto& m) { m.sums.at(name).type = Type::kInt32; });
    expect(sums + " has 2 dimensions, 1 needed", [&](auto& m) { m.sums.at(name).shape = {3, 1}; });
  }
}

/// HDF5 gives a column its place when it is first written.
TEST_F(ReadMetadata, AColumnWithoutAPlaceIsNamed) {
  Metadata metadata;
  metadata.columns.erase("/label");
  metadata.write(path_);
  const hid_t file = H5Fopen(path_.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  const hsize_t length = 10;
  const hid_t space = H5Screate_simple(1, &length, nullptr);
  H5Dclose(H5Dcreate2(file, "/label", H5T_STD_U8LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  H5Sclose(space);
  H5Fclose(file);
  EXPECT_EQ(usage_error_of([&] { StructureReader(path_).read(); }),
            path_ + ": /label was never written");
}

}  // namespace
}  // namespace dlrm
