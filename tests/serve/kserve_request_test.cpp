#include "serve/kserve_request.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dlrm/core/error.h"

#include "error_of.h"
#include "serve/binary_body.h"

namespace dlrm::serve {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string binary_tensor(const std::string& name, const std::string& type,
                          const std::string& shape, size_t size) {
  return fmt::format(R"({{"name": "{}", "datatype": "{}", "shape": [{}], )"
                     R"("parameters": {{"binary_data_size": {}}}}})",
                     name, type, shape, size);
}

/// A request whose body begins with so many bytes of JSON.
struct Body {
  std::string bytes;
  size_t head = 0;
};

Body with_head(const std::string& head, const std::string& rest) {
  return {head + rest, head.size()};
}

Body good() {
  return with_head(R"({"id": "r1", "inputs": [)" + binary_tensor("lengths", "UINT32", "2, 2", 16) +
                       ", " + binary_tensor("dense", "FP32", "2, 2", 16) + ", " +
                       binary_tensor("ids", "INT64", "4", 32) + "]}",
                   bytes<uint32_t>({2, 0, 1, 1}) + bytes<float>({0.5f, -1, 2, 3}) +
                       bytes<int64_t>({9, 0, 3, 2}));
}

Samples read(const std::string& body, const std::string& head) {
  return samples_of(read_kserve_request(body, head), two_features());
}
std::string refusal_of_request(const std::string& body, const std::string& head = "") {
  return usage_error_of([&] { read(body, head); });
}

TEST(KserveRequest, TensorsBecomeSamples) {
  const Body body = good();
  const Samples samples = read(body.bytes, std::to_string(body.head));
  EXPECT_EQ(samples.size, 2);
  EXPECT_THAT(samples.dense, ElementsAre(0.5f, -1, 2, 3));
  EXPECT_THAT(samples.ids, ElementsAre(9, 0, 3, 2));
  EXPECT_THAT(samples.offsets, ElementsAre(0, 2, 2, 3, 4));
  EXPECT_EQ(read_kserve_request(body.bytes, std::to_string(body.head)).id, "r1");
}

TEST(KserveRequest, DataMayBeNestedOrFlat) {
  for (const std::string dense : {"[[0.5, -1], [2, 3]]", "[0.5, -1, 2, 3]"}) {
    const Samples samples = read(
        R"({"inputs": [{"name": "dense", "datatype": "FP32", "shape": [2, 2], "data": )" + dense +
            R"(}, {"name": "ids", "datatype": "INT64", "shape": [4], "data": [9, 0, 3, 2]},)"
            R"( {"name": "lengths", "datatype": "UINT32", "shape": [2, 2], "data": [[2, 0], [1, 1]]}]})",
        "");
    EXPECT_THAT(samples.dense, ElementsAre(0.5f, -1, 2, 3));
    EXPECT_THAT(samples.ids, ElementsAre(9, 0, 3, 2));
  }
}

/// What damage makes of a request is refused, or is a request whose samples fit the model.
void expect_refused_or_right(const std::string& body, const std::string& head) {
  try {
    const Samples samples = read(body, head);
    ASSERT_EQ(samples.dense.size(), static_cast<size_t>(2 * samples.size));
    ASSERT_EQ(samples.offsets.size(), static_cast<size_t>(2 * samples.size + 1));
    ASSERT_EQ(samples.offsets.back(), static_cast<int64_t>(samples.ids.size()));
    for (size_t bag = 0; bag + 1 < samples.offsets.size(); ++bag) {
      for (int64_t k = samples.offsets[bag]; k < samples.offsets[bag + 1]; ++k) {
        const int64_t id = samples.ids[static_cast<size_t>(k)];
        ASSERT_TRUE(id >= 0 && id < (bag % 2 == 0 ? 10 : 4)) << id;
      }
    }
    for (const float value : samples.dense) ASSERT_TRUE(std::isfinite(value));
  } catch (const Error& error) {
    ASSERT_EQ(error.code(), ExitCode::kUsage) << error.what();
  }
}

TEST(KserveRequest, EveryOtherLengthIsRefused) {
  const Body body = good();
  const std::string head = std::to_string(body.head);
  for (size_t size = 0; size < body.bytes.size(); ++size) {
    EXPECT_NE(refusal_of_request(body.bytes.substr(0, size), head), "") << size;
    if (size == body.head) continue;
    EXPECT_NE(refusal_of_request(body.bytes, std::to_string(size)), "") << size;
  }
  EXPECT_EQ(refusal_of_request(body.bytes + "x", head), "1 bytes follow the last tensor");
  EXPECT_THAT(refusal_of_request(body.bytes, ""), HasSubstr("not JSON"));
  for (const std::string wrong : {"-1", "1x", " 5", "99999999999999999999999", "1e3"}) {
    EXPECT_THAT(refusal_of_request(body.bytes, wrong),
                HasSubstr("Inference-Header-Content-Length: needs"));
  }
}

TEST(KserveRequest, ADamagedByteIsRefusedOrHarmless) {
  const Body body = good();
  for (size_t at = 0; at < body.bytes.size(); ++at) {
    for (const int bit : {0x01, 0x10, 0x80}) {
      std::string changed = body.bytes;
      changed[at] = static_cast<char>(changed[at] ^ bit);
      expect_refused_or_right(changed, std::to_string(body.head));
    }
  }
}

TEST(KserveRequest, ATensorHasTheBytesOfItsElements) {
  std::string body = good().bytes;
  for (const std::string size : {"16}}, {\"name\": \"ids", "32}}]"}) {
    const size_t at = body.find("_size\": " + size) + 8;
    body.replace(at, 2, "24");  // of both together the bytes are there
  }
  EXPECT_EQ(refusal_of_request(body, std::to_string(good().head)),
            "inputs.dense: 24 bytes; needs 16 for 4 elements");
}

TEST(KserveRequest, ElementsOfTextsEndWithinTheirTensor) {
  const auto error = [](const std::string& data, const std::string& shape) {
    const Body body = with_head(
        R"({"inputs": [)" + binary_tensor("records", "BYTES", shape, data.size()) + "]}", data);
    return usage_error_of([&] { read_kserve_request(body.bytes, std::to_string(body.head)); });
  };
  const std::string two = bytes<uint32_t>({2}) + "{}" + bytes<uint32_t>({0});
  EXPECT_EQ(error(two, "2"), "");
  EXPECT_EQ(error(two, "2, 1"), "");
  EXPECT_EQ(error(two, "3"), "inputs.records: 2 elements; its shape says 3");
  EXPECT_EQ(error(two + "abc", "2"), "inputs.records[2]: ends within a length");
  EXPECT_EQ(error(bytes<uint32_t>({0xffffffff}) + "abc", "1"),
            "inputs.records[0]: ends within an element of 4294967295 bytes");
}

TEST(KserveRequest, WhatIsWrongIsNamed) {
  const auto with = [](const std::string& tensor) {
    return refusal_of_request(R"({"inputs": [)" + tensor + "]}");
  };
  const auto ids = [&](const std::string& shape, const std::string& data) {
    return with(R"({"name": "ids", "datatype": "INT64", "shape": )" + shape + R"(, "data": )" +
                data + "}");
  };
  EXPECT_EQ(refusal_of_request("[]"), "needs an object with the list inputs");
  EXPECT_EQ(refusal_of_request(R"({"inputs": {}})"), "inputs: an object; needs a list");
  EXPECT_EQ(refusal_of_request(R"({"inputs": [3]})"), "inputs[0]: 3; needs an object");
  EXPECT_EQ(refusal_of_request(R"({"id": 3, "inputs": []})"), "id: 3; needs a text");
  EXPECT_EQ(with("{}"), "inputs: the name of a tensor: is missing; needs a text");
  EXPECT_EQ(with(R"({"name": "x"})"),
            "inputs: no tensor \"x\"; there are records and shared, or dense, lengths, ids and "
            "weights");
  EXPECT_EQ(with(R"({"name": "ids", "datatype": "FP64"})"),
            "inputs.ids.datatype: \"FP64\"; needs INT64");
  for (const std::string shape : {"[]", "3", "[1, 1, 1, 1, 1, 1, 1, 1, 1]"}) {
    EXPECT_EQ(ids(shape, "[]"), "inputs.ids.shape: needs a list of 1 to 8 whole numbers");
  }
  for (const std::string size : {"-1", "1.0", "\"1\"", "18446744073709551615"}) {
    EXPECT_THAT(ids("[" + size + "]", "[]"), HasSubstr("needs whole numbers of at least 0"));
  }
  for (const std::string shape : {"[1000000000000]", "[4294967296, 4294967296]"}) {
    EXPECT_THAT(ids(shape, "[]"), HasSubstr("has more elements than the body has bytes"));
  }
  EXPECT_EQ(ids("[2]", "[1]"),
            "inputs.ids.data: a list of 1; needs a list of 2, as the shape says");
  EXPECT_EQ(ids("[2, 1]", "[[1], [1, 2]]"),
            "inputs.ids.data: a list of 2; needs a list of 1, as the shape says");
  EXPECT_EQ(ids("[2, 2]", "[1, [2, 3]]"),
            "inputs.ids.data: 1; needs a list of 2, as the shape says");
  EXPECT_EQ(ids("[1]", "[1.5]"), "inputs.ids.data: 1.5 is no INT64");
  EXPECT_EQ(ids("[1]", "[9223372036854775808]"),
            "inputs.ids.data: 9223372036854775808 is no INT64");
  EXPECT_EQ(ids("[1]", "[[1]]"), "inputs.ids.data: a list is no INT64");
  EXPECT_EQ(with(R"({"name": "ids", "datatype": "INT64", "shape": [1]})"),
            "inputs.ids: needs either data or parameters.binary_data_size");
  EXPECT_EQ(with(binary_tensor("ids", "INT64", "1", 8)),
            "inputs.ids.parameters.binary_data_size: 8; 0 bytes are left of the body");
  EXPECT_EQ(refusal_of_request(R"({"inputs": [], "parameters": {"binary_data_output": 1}})"),
            "parameters.binary_data_output: 1; needs true or false");
  EXPECT_EQ(refusal_of_request(R"({"inputs": []})"), "inputs: lacks the tensor lengths");
}

}  // namespace
}  // namespace dlrm::serve
