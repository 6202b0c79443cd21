#include "criteo_ids.h"

#include <utility>

namespace dlrm {
namespace {

class GrowingIds : public IdSource {
 public:
  explicit GrowingIds(Dictionary dictionary) : dictionary_(std::move(dictionary)) {}
  void encode(View<const CategoryValue> values, View<int32_t> ids) override {
    dictionary_.insert_all(values, ids);
  }
  int64_t rows() const override { return dictionary_.first_id() + dictionary_.size(); }
  const Dictionary* dictionary() const override { return &dictionary_; }

 private:
  Dictionary dictionary_;
};

class KnownIds : public IdSource {
 public:
  explicit KnownIds(Dictionary dictionary) : dictionary_(std::move(dictionary)) {}
  void encode(View<const CategoryValue> values, View<int32_t> ids) override {
    dictionary_.find_all(values, ids, 0);
  }
  int64_t rows() const override { return dictionary_.first_id() + dictionary_.size(); }
  const Dictionary* dictionary() const override { return &dictionary_; }

 private:
  Dictionary dictionary_;
};

class HashedIds : public IdSource {
 public:
  explicit HashedIds(int64_t rows) : rows_(rows) {}
  void encode(View<const CategoryValue> values, View<int32_t> ids) override {
    for (size_t i = 0; i < values.size(); ++i) {
      ids[i] = static_cast<int32_t>(hashed_id(values[i], rows_));
    }
  }
  int64_t rows() const override { return rows_; }

 private:
  int64_t rows_;
};

}  // namespace

std::unique_ptr<IdSource> make_growing_ids(Dictionary dictionary) {
  return std::make_unique<GrowingIds>(std::move(dictionary));
}
std::unique_ptr<IdSource> make_known_ids(Dictionary dictionary) {
  return std::make_unique<KnownIds>(std::move(dictionary));
}
std::unique_ptr<IdSource> make_hashed_ids(int64_t rows) {
  return std::make_unique<HashedIds>(rows);
}

}  // namespace dlrm
