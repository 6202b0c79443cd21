#include "kserve_request.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <limits>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "dlrm/core/error.h"
#include "dlrm/core/printable.h"

#include "binary_samples.h"
#include "json_value.h"

namespace dlrm::serve {
namespace {

using nlohmann::json;
using Tensor = KserveRequest::Tensor;

constexpr size_t kMostDimensions = 8;
constexpr std::array<KserveType, 6> kTypes = {{{"records", "BYTES", 0},
                                               {"shared", "BYTES", 0},
                                               {"dense", "FP32", sizeof(float)},
                                               {"lengths", "UINT32", sizeof(uint32_t)},
                                               {"ids", "INT64", sizeof(int64_t)},
                                               {"weights", "FP32", sizeof(float)}}};
constexpr const char* kNames = "records and shared, or dense, lengths, ids and weights";

template <class T>
void append_bytes(std::string& to, T value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

/// The member of an object; null if there is none.
const json* member(const json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

std::string text_member(const json& object, const char* key, const std::string& where) {
  const json* const value = member(object, key);
  if (!value || !value->is_string()) {
    throw usage_error("{}: {}; needs a text", where, value ? shown(*value) : "is missing");
  }
  return value->get<std::string>();
}

/// A member of the object `parameters` of an object; null if there is none.
const json* parameter(const json& object, const char* key, const std::string& where) {
  const json* const all = member(object, "parameters");
  if (!all) return nullptr;
  if (!all->is_object()) throw usage_error("{}parameters: {}; needs an object", where, shown(*all));
  return member(*all, key);
}

bool flag(const json& object, const char* key, const std::string& where, bool otherwise) {
  const json* const value = parameter(object, key, where);
  if (!value) return otherwise;
  if (!value->is_boolean()) {
    throw usage_error("{}parameters.{}: {}; needs true or false", where, key, shown(*value));
  }
  return value->get<bool>();
}

/// The list of objects `key` of the body. Empty if there is none.
const json& objects(const json& body, const char* key) {
  static const json none = json::array();
  const json* const list = member(body, key);
  if (!list) return none;
  if (!list->is_array()) throw usage_error("{}: {}; needs a list", key, shown(*list));
  for (const json& object : *list) {
    if (!object.is_object()) {
      throw usage_error("{}[{}]: {}; needs an object", key, &object - &list->front(),
                        shown(object));
    }
  }
  return *list;
}

/// Sets shape and elements. There are at most `most` elements.
void read_shape(const json& from, size_t most, const std::string& where, Tensor& tensor) {
  const json* const shape = member(from, "shape");
  if (!shape || !shape->is_array() || shape->empty() || shape->size() > kMostDimensions) {
    throw usage_error("{}.shape: needs a list of 1 to {} whole numbers", where, kMostDimensions);
  }
  for (const json& size : *shape) {
    if (!size.is_number_unsigned() ||
        size.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      throw usage_error("{}.shape: {}; needs whole numbers of at least 0", where, shown(size));
    }
    tensor.shape.push_back(size.get<int64_t>());
  }
  const bool empty = std::find(tensor.shape.begin(), tensor.shape.end(), 0) != tensor.shape.end();
  tensor.elements = empty ? 0 : 1;
  for (const int64_t size : tensor.shape) {
    if (tensor.elements > static_cast<int64_t>(most) / std::max<int64_t>(size, 1)) {
      throw usage_error("{}.shape: [{}] has more elements than the body has bytes", where,
                        fmt::join(tensor.shape, ", "));
    }
    tensor.elements *= size;
  }
}

/// Appends a value of `data` in its type.
void append_value(const json& value, const KserveType& type, std::string& to) {
  const std::string_view name = type.type;
  if (name == "BYTES" && value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    append_bytes(to, static_cast<uint32_t>(text.size()));
    to += text;
  } else if (name == "FP32" && value.is_number()) {
    append_bytes(to, value.get<float>());
  } else if (name == "UINT32" && value.is_number_unsigned() &&
             value.get<uint64_t>() <= std::numeric_limits<uint32_t>::max()) {
    append_bytes(to, value.get<uint32_t>());
  } else if (name == "INT64" && value.is_number_integer() &&
             (!value.is_number_unsigned() ||
              value.get<uint64_t>() <=
                  static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))) {
    append_bytes(to, value.get<int64_t>());
  } else {
    throw usage_error("inputs.{}.data: {} is no {}", type.name, shown(value), type.type);
  }
}

/// Appends the elements of a list of `data` that is nested from dimension `dimension` on.
void append_nested(const json& list, size_t dimension, const KserveType& type, Tensor& tensor) {
  if (!list.is_array() || static_cast<int64_t>(list.size()) != tensor.shape[dimension]) {
    throw usage_error("inputs.{}.data: {}; needs a list of {}, as the shape says", type.name,
                      list.is_array() ? fmt::format("a list of {}", list.size()) : shown(list),
                      tensor.shape[dimension]);
  }
  for (const json& value : list) {
    if (dimension + 1 < tensor.shape.size()) {
      append_nested(value, dimension + 1, type, tensor);
    } else {
      append_value(value, type, tensor.own);
    }
  }
}

void read_data(const json& data, const KserveType& type, Tensor& tensor) {
  const bool flat = tensor.shape.size() > 1 && data.is_array() &&
                    static_cast<int64_t>(data.size()) == tensor.elements &&
                    (data.empty() || !data.front().is_array());
  if (!flat) return append_nested(data, 0, type, tensor);
  for (const json& value : data) append_value(value, type, tensor.own);
}

std::string_view next_text(std::string_view& rest) {
  uint32_t size = 0;
  if (rest.size() < sizeof(size)) throw usage_error("ends within a length");
  std::memcpy(&size, rest.data(), sizeof(size));
  rest.remove_prefix(sizeof(size));
  if (size > rest.size()) throw usage_error("ends within an element of {} bytes", size);
  const std::string_view text = rest.substr(0, size);
  rest.remove_prefix(size);
  return text;
}

/// Throws unless the tensor's bytes are its elements.
void check_bytes(const KserveType& type, const Tensor& tensor) {
  if (type.size > 0) {
    if (static_cast<int64_t>(tensor.bytes().size()) == tensor.elements * type.size) return;
    throw usage_error("inputs.{}: {} bytes; needs {} for {} elements", type.name,
                      tensor.bytes().size(), tensor.elements * type.size, tensor.elements);
  }
  std::string_view rest = tensor.bytes();
  int64_t elements = 0;
  try {
    for (; !rest.empty(); ++elements) next_text(rest);
  } catch (const Error& error) {
    throw usage_error("inputs.{}[{}]: {}", type.name, elements, error.what());
  }
  if (elements == tensor.elements) return;
  throw usage_error("inputs.{}: {} elements; its shape says {}", type.name, elements,
                    tensor.elements);
}

/// Reads a tensor. Takes its bytes from the front of `rest` if they are there.
Tensor read_tensor(const json& from, size_t most, std::string_view& rest) {
  Tensor tensor;
  tensor.name = text_member(from, "name", "inputs: the name of a tensor");
  const KserveType* const type = kserve_type(tensor.name);
  if (!type) throw usage_error("inputs: no tensor {}; there are {}", shown(tensor.name), kNames);
  const std::string where = "inputs." + tensor.name;
  const std::string datatype = text_member(from, "datatype", where + ".datatype");
  if (datatype != type->type) {
    throw usage_error("{}.datatype: {}; needs {}", where, shown(datatype), type->type);
  }
  read_shape(from, most, where, tensor);
  const json* const data = member(from, "data");
  const json* const size = parameter(from, "binary_data_size", where + ".");
  if ((data != nullptr) == (size != nullptr)) {
    throw usage_error("{}: needs either data or parameters.binary_data_size", where);
  }
  if (data) {
    read_data(*data, *type, tensor);
    return tensor;
  }
  if (!size->is_number_unsigned() || size->get<uint64_t>() > rest.size()) {
    throw usage_error("{}.parameters.binary_data_size: {}; {} bytes are left of the body", where,
                      shown(*size), rest.size());
  }
  tensor.binary = rest.substr(0, size->get<size_t>());
  rest.remove_prefix(tensor.binary.size());
  check_bytes(*type, tensor);
  return tensor;
}

/// The bytes of JSON that a body begins with.
std::string_view head_of(std::string_view body, std::string_view length) {
  if (length.empty()) return body;
  size_t size = 0;
  const auto [end, error] = std::from_chars(length.data(), length.data() + length.size(), size);
  if (error != std::errc() || end != length.data() + length.size() || size > body.size()) {
    throw usage_error(
        "Inference-Header-Content-Length: needs a whole number up to {}, the bytes "
        "of the body",
        body.size());
  }
  return body.substr(0, size);
}

/// Throws unless the tensor is there and has this shape; -1 is any number.
const Tensor& expect(const KserveRequest& request, const char* name,
                     const std::vector<int64_t>& shape) {
  const Tensor* const tensor = request.find(name);
  if (!tensor) throw usage_error("inputs: lacks the tensor {}", name);
  const auto fits = [](int64_t size, int64_t needed) { return needed < 0 || size == needed; };
  if (!std::equal(tensor->shape.begin(), tensor->shape.end(), shape.begin(), shape.end(), fits)) {
    throw usage_error("inputs.{}.shape: [{}]; needs [{}]", name, fmt::join(tensor->shape, ", "),
                      fmt::join(shape, ", "));
  }
  return *tensor;
}

/// The tensor of texts, of shape [n] or [n, 1].
const Tensor& expect_texts(const KserveRequest& request, const char* name, int64_t size) {
  const Tensor* const tensor = request.find(name);
  const bool is_column = tensor && tensor->shape.size() == 2;
  return expect(request, name,
                is_column ? std::vector<int64_t>{size, 1} : std::vector<int64_t>{size});
}

void append_records(const Tensor& tensor, const Columns& columns, Records& records) {
  std::string_view rest = tensor.bytes();
  for (int64_t i = 0; i < tensor.elements; ++i) {
    try {
      append_record(next_text(rest), columns, records);
    } catch (const Error& error) {
      throw usage_error("inputs.{}[{}]: {}", tensor.name, i, error.what());
    }
  }
}

}  // namespace

const Tensor* KserveRequest::find(std::string_view name) const {
  for (const Tensor& tensor : inputs) {
    if (tensor.name == name) return &tensor;
  }
  return nullptr;
}

const KserveType* kserve_type(std::string_view name) {
  for (const KserveType& type : kTypes) {
    if (name == type.name) return &type;
  }
  return nullptr;
}

KserveRequest read_kserve_request(std::string_view body, std::string_view header_length) {
  const std::string_view head = head_of(body, header_length);
  const json root = parse_json(head);
  if (!root.is_object() || !root.contains("inputs")) {
    throw usage_error("needs an object with the list inputs");
  }
  KserveRequest request;
  if (root.contains("id")) request.id = text_member(root, "id", "id");
  std::string_view rest = body.substr(head.size());
  for (const json& from : objects(root, "inputs")) {
    Tensor tensor = read_tensor(from, body.size(), rest);
    if (request.find(tensor.name)) throw usage_error("inputs.{} is there twice", tensor.name);
    request.inputs.push_back(std::move(tensor));
  }
  if (!rest.empty()) throw usage_error("{} bytes follow the last tensor", rest.size());
  request.binary_by_default = flag(root, "binary_data_output", "", false);
  for (const json& from : objects(root, "outputs")) {
    KserveRequest::Output output;
    output.name = text_member(from, "name", "outputs: the name of a tensor");
    const std::string where = fmt::format("outputs.{}.", printable(output.name, 60));
    if (parameter(from, "classification", where)) {
      throw usage_error("{}parameters.classification: there are no classes", where);
    }
    output.binary = flag(from, "binary_data", where, request.binary_by_default);
    request.outputs.push_back(std::move(output));
  }
  return request;
}

Samples samples_of(const KserveRequest& request, const Inputs& inputs) {
  const auto features = static_cast<int64_t>(inputs.features.size());
  const Tensor& lengths = expect(request, "lengths", {-1, features});
  const int64_t size = lengths.shape[0];
  std::string body;
  append_bytes(body, kBinaryVersion);
  append_bytes(body, static_cast<uint32_t>(size));
  if (inputs.dense > 0) body += expect(request, "dense", {size, inputs.dense}).bytes();
  body += lengths.bytes();
  int64_t ids = 0, weights = 0;
  for (int64_t i = 0; i < lengths.elements; ++i) {
    uint32_t length = 0;
    std::memcpy(&length, lengths.bytes().data() + i * 4, 4);
    ids += length;
    if (inputs.features[static_cast<size_t>(i % features)].weighted) weights += length;
  }
  body += expect(request, "ids", {ids}).bytes();
  if (inputs.weighted) body += expect(request, "weights", {weights}).bytes();
  for (const Tensor& tensor : request.inputs) {
    if ((tensor.name == "dense" && inputs.dense == 0) ||
        (tensor.name == "weights" && !inputs.weighted)) {
      throw usage_error("inputs.{}: the model takes none", tensor.name);
    }
  }
  return read_binary_samples(body, inputs);
}

Samples samples_of(const KserveRequest& request, const RecordInputs& inputs) {
  for (const Tensor& tensor : request.inputs) {
    if (std::string_view(kserve_type(tensor.name)->type) == "BYTES") continue;
    throw usage_error("inputs.{}: beside records there is shared alone", tensor.name);
  }
  const Columns& columns = inputs.columns();
  SharedRecords all{Records(columns.size()), Records(columns.size())};
  append_records(expect_texts(request, "records", -1), columns, all.records);
  if (request.find("shared")) {
    append_records(expect_texts(request, "shared", 1), columns, all.shared);
  }
  Samples samples;
  inputs.append(all, columns, samples);
  return samples;
}

}  // namespace dlrm::serve
