// The checked execution of a GPU copies operands of every form.
#ifdef DLRM_WITH_CUDA
#include "dlrm/device/transfer.h"

#include "bags.h"

namespace dlrm {
namespace {

/// Checked operations of the first GPU.
struct CheckedGpu {
  /// Memory of the device of exactly these bytes.
  template <class T>
  Array<T> upload(const std::vector<T>& values) {
    Array<T> array(*device, values.size(), "test");
    transfer.to_device(array.data(), values.data(), values.size() * sizeof(T));
    return array;
  }

  std::shared_ptr<Device> device = make_cuda_device(0);
  std::unique_ptr<Stream> stream = device->make_stream();
  Transfer transfer{*device, *stream};
  std::unique_ptr<Ops> checked =
      make_checked_ops(make_cuda_ops(*device, *stream, CudaOpsOptions()), *device, *stream);
};

TEST(CheckedOperands, OfADeviceAreNotReadPastTheirEnd) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  CheckedGpu gpu;
  constexpr size_t kIds = 4096;
  const auto narrow = gpu.upload(std::vector<int32_t>(kIds, 4));
  const Array<int64_t> ids(*gpu.device, kIds, "ids"), offsets(*gpu.device, 2, "offsets");
  IdPart part;
  part.ids = narrow.data(), part.narrow = true, part.bags = 1, part.length = kIds;
  const IdFilter filter{{&part, 1}, 3, 3, ids.data(), offsets.data()};
  EXPECT_NO_THROW(gpu.checked->filter_ids({&filter, 1}));
  IdCheck check;
  check.ids = narrow.data(), check.narrow = true, check.bags = 1, check.length = kIds;
  check.capacity = kIds, check.rows = 5;
  const auto flag = gpu.upload(std::vector<float>{0});
  const auto where = gpu.upload(std::vector<int64_t>{0, 0, 0});
  EXPECT_NO_THROW(gpu.checked->check_ids({&check, 1}, flag.view(), where.view()));
  const auto packed = gpu.upload(std::vector<int32_t>(kIds, 7));
  const PackedList list{packed.data(), ids.data(), kIds, 0};
  EXPECT_NO_THROW(gpu.checked->unpack({&list, 1}));
}

TEST(CheckedOperands, OfADeviceMayListTheRowsOfABlock) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  CheckedGpu gpu;
  const auto from = gpu.upload(std::vector<float>{1, 2, 3, 4, 5, 6});
  const auto to = gpu.upload(std::vector<float>(8, 0.5f));
  const auto scale = gpu.upload(std::vector<float>{10, 100});
  const auto rows_from = gpu.upload(std::vector<int32_t>{2, 0});
  const auto rows_to = gpu.upload(std::vector<int32_t>{1, 3});
  BlockCopy b;
  b.src = from.data(), b.dst = to.data(), b.src_stride = b.dst_stride = b.cols = 2, b.rows = 2;
  b.scale = scale.data(), b.src_rows = rows_from.data(), b.dst_rows = rows_to.data();
  EXPECT_NO_THROW(gpu.checked->copy_blocks({&b, 1}));
  std::vector<float> got(8);
  gpu.transfer.to_host(got.data(), to.data(), 8 * sizeof(float));
  EXPECT_EQ(got, (std::vector<float>{0.5f, 0.5f, 50, 60, 0.5f, 0.5f, 100, 200}));
}

}  // namespace
}  // namespace dlrm
#endif
