#include <cerrno>

#include <gmock/gmock.h>

#include "disturbed_file.h"
#include "stores.h"

namespace dlrm::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kFaultyBytes = 128;
constexpr int64_t kFaultyRows = 1000;  // about 16 segments of 64 records

class SsdFaults : public ::testing::TestWithParam<bool> {
 protected:
  SsdFaults() { SetUpStore(); }

  void SetUpStore() {
    faults_->transfer = FileFaults().transfer;
    SsdRecordsOptions options = small_segments(folder_.path());
    options.io_uring = GetParam();
    options.direct = false;  // it would refuse short transfers
    store_ = std::make_unique<SsdRecords>(
        kFaultyRows, kFaultyBytes, options,
        std::make_unique<DisturbedFile>(open_block_file(options), faults_));
  }

  void write(int64_t version, const Rows& rows = row_range(0, kFaultyRows)) {
    write_version(*store_, rows, kFaultyBytes, version);
  }
  void read() { read_records(*store_, row_range(0, kFaultyRows), kFaultyBytes); }
  Rows wrong(int64_t version) {
    return wrong_rows(*store_, row_range(0, kFaultyRows), kFaultyBytes,
                      [&](int64_t) { return version; });
  }
  /// Lets transfer `nth` of a direction, counted from 0, be disturbed, and no other.
  void disturb(bool write, int nth, Disturbance disturbance) {
    faults_->transfer = [=, count = 0](const BlockTransfer& transfer) mutable {
      return transfer.write == write && count++ == nth ? disturbance : Disturbance{};
    };
  }
  /// The store failed with `message`, and keeps failing with it.
  void expect_failed_for_good(const std::string& message) {
    faults_->transfer = [](const BlockTransfer&) { return Disturbance{}; };
    faults_->resize = [](int64_t) { return 0; };
    EXPECT_EQ(run_error_of([&] { read(); }), message);
    EXPECT_EQ(run_error_of([&] { write(9, {1}); }), message);
    EXPECT_EQ(run_error_of([&] { store_->arrange(); }), message);
    EXPECT_EQ(run_error_of([&] { store_->clear(); }), message);
  }

  StoreFolder folder_;
  std::shared_ptr<FileFaults> faults_ = std::make_shared<FileFaults>();
  std::unique_ptr<SsdRecords> store_;
};

TEST_P(SsdFaults, AFullDiskIsAnErrorThatSaysWhatIsNeeded) {
  faults_->resize = [](int64_t bytes) { return bytes > 100000 ? ENOSPC : 0; };
  const std::string error = run_error_of([&] { write(1); });
  EXPECT_THAT(error, AllOf(HasSubstr(folder_.path()), HasSubstr("rows of C3"),
                           HasSubstr("No space left on device (errno 28)"),
                           HasSubstr("memory.cached.directory")));
  expect_failed_for_good(error);
}

TEST_P(SsdFaults, AFullDiskDuringAWriteIsAnError) {
  disturb(true, 3, {.error = ENOSPC});
  const std::string error = run_error_of([&] { write(1); });
  EXPECT_THAT(
      error, AllOf(HasSubstr("cannot write"), HasSubstr("at block"),
                   HasSubstr("No space left on device (errno 28)"), HasSubstr("free space there")));
  expect_failed_for_good(error);
}

TEST_P(SsdFaults, AFailedReadIsAnErrorThatNamesTheBlock) {
  write(1);
  disturb(false, 2, {.error = EIO});
  const std::string error = run_error_of([&] { read(); });
  EXPECT_THAT(error, AllOf(HasSubstr(folder_.path()), HasSubstr("rows of C3"),
                           HasSubstr("cannot read"), HasSubstr("at block"),
                           HasSubstr("Input/output error (errno 5)"), HasSubstr("resume")));
  expect_failed_for_good(error);
}

TEST_P(SsdFaults, OfSeveralErrorsTheFirstIsTold) {
  write(1);
  // Of one read.
  faults_->transfer = [count = 0](const BlockTransfer&) mutable {
    return Disturbance{.error = ++count == 2 ? EIO : count == 3 ? ENXIO : 0};
  };
  EXPECT_THAT(run_error_of([&] { read(); }), HasSubstr("(errno 5)"));
  // Of two reads that are under way.
  SetUpStore();
  write(1);
  std::vector<std::unique_ptr<RecordRead>> reads;
  const Rows rows = row_range(0, 40);
  std::vector<std::byte> records(rows.size() * kFaultyBytes);
  std::vector<uint8_t> written(rows.size());
  std::vector<std::string> errors;
  for (const int error : {EIO, ENXIO}) {
    disturb(false, 0, {.error = error});
    reads.push_back(store_->start_read(rows, records.data(), written.data()));
  }
  for (const auto& read : reads) {
    errors.push_back(run_error_of([&] { read->finish(); }));
  }
  EXPECT_THAT(errors[0], HasSubstr("(errno 5)"));
  EXPECT_THAT(errors[1], HasSubstr("(errno 6)"));
  expect_failed_for_good(errors[0]);
}

TEST_P(SsdFaults, AFailedWriteIsAnError) {
  disturb(true, 5, {.error = EIO});
  const std::string error = run_error_of([&] { write(1); });
  EXPECT_THAT(error, AllOf(HasSubstr("cannot write"), HasSubstr("(errno 5)")));
  expect_failed_for_good(error);
}

TEST_P(SsdFaults, ShortAndInterruptedTransfersAreContinued) {
  faults_->transfer = [count = 0](const BlockTransfer& transfer) mutable {
    switch (++count % 5) {
      case 0:
        return Disturbance{.error = EINTR};
      case 1:
        return Disturbance{.error = EAGAIN};
      case 2:  // less than a block
        return Disturbance{.at_most = 1000};
      case 3:
        return Disturbance{.at_most = transfer.bytes / 2 + 1};
      default:
        return Disturbance{};
    }
  };
  for (int64_t version = 0; version < 5; ++version) {
    write(version);
    ASSERT_THAT(wrong(version), IsEmpty()) << version;
  }
}

TEST_P(SsdFaults, ATransferWithoutProgressIsAnError) {
  faults_->transfer = [](const BlockTransfer&) { return Disturbance{.at_most = 1000}; };
  const std::string error = run_error_of([&] { write(1); });
  EXPECT_THAT(error, AllOf(HasSubstr("cannot write"), HasSubstr("only 1000 bytes")));
  expect_failed_for_good(error);
}

TEST_P(SsdFaults, AFileThatEndsTooEarlyIsAnError) {
  write(1);
  disturb(false, 1, {.at_most = 0});
  const std::string error = run_error_of([&] { read(); });
  EXPECT_THAT(error, AllOf(HasSubstr("cannot read"), HasSubstr("only 0 bytes")));
  expect_failed_for_good(error);
}

TEST_P(SsdFaults, ADamagedBlockIsAnErrorThatNamesIt) {
  write(1);
  disturb(false, 4, {.damaged = true});
  const std::string error = run_error_of([&] { read(); });
  EXPECT_THAT(error, AllOf(HasSubstr("rows of C3"), HasSubstr("block"), HasSubstr("is damaged"),
                           HasSubstr("checksum")));
  expect_failed_for_good(error);
}

TEST_P(SsdFaults, ADamagedRecordIsFoundWhereverItIsInItsBlock) {
  for (int64_t row = 0; row < 4096 / kFaultyBytes; ++row) {
    SetUpStore();
    write(1);
    disturb(false, 0, {.damaged = true, .at = row * kFaultyBytes + row});
    const auto read_row = [&] { read_records(*store_, {row}, kFaultyBytes); };
    EXPECT_THAT(run_error_of(read_row), HasSubstr("block 0 is damaged")) << row;
  }
}

TEST_P(SsdFaults, ABlockThatTheDiskDidNotWriteIsDamaged) {
  disturb(true, 2, {.lost = true});
  write(1);
  const std::string error = run_error_of([&] { read(); });
  EXPECT_THAT(error, HasSubstr("is damaged"));
  expect_failed_for_good(error);
}

// A segment is written over one that the checksums of its own time would accept.
TEST_P(SsdFaults, ABlockThatKeptOlderRecordsIsDamaged) {
  for (int64_t version = 0; version < 5; ++version) write(version);
  disturb(true, 0, {.lost = true});
  write(5);
  EXPECT_THAT(run_error_of([&] { read(); }), HasSubstr("is damaged"));
}

TEST_P(SsdFaults, ADamagedBlockIsFoundByCompactionToo) {
  faults_->transfer = [](const BlockTransfer& transfer) {
    return Disturbance{.damaged = !transfer.write};
  };
  const std::string error = run_error_of([&] {
    write(0);
    for (int64_t version = 1; version < 20; ++version)
      write(version, row_range(version % 7, kFaultyRows, 7));
  });
  EXPECT_THAT(error, HasSubstr("is damaged"));
  expect_failed_for_good(error);
}

TEST_P(SsdFaults, AReadThatCannotStartIsFinal) {
  write(1);
  faults_->transfer = [count = 0](const BlockTransfer& transfer) mutable {
    if (!transfer.write && count++ == 3) throw run_error("no more transfers");
    return Disturbance{};
  };
  EXPECT_EQ(run_error_of([&] { read(); }), "no more transfers");
  expect_failed_for_good("no more transfers");
}

TEST_P(SsdFaults, AFileThatCannotBeEmptiedIsAnError) {
  write(1);
  faults_->resize = [](int64_t bytes) { return bytes == 0 ? EIO : 0; };
  EXPECT_EQ(run_error_of([&] { store_->clear(); }),
            folder_.path() + ": rows of C3: cannot empty the file: Input/output error (errno 5)");
}

TEST_P(SsdFaults, AnErrorWhileRecordsAreArrangedIsFinal) {
  Rows rows = row_range(0, kFaultyRows);
  std::reverse(rows.begin(), rows.end());
  for (const bool write_fails : {false, true}) {
    SetUpStore();
    write(0, rows);
    disturb(write_fails, 2, {.error = EIO});
    const std::string error = run_error_of([&] { store_->arrange(); });
    EXPECT_THAT(error, AllOf(HasSubstr(write_fails ? "cannot write" : "cannot read"),
                             HasSubstr("Input/output error (errno 5)")));
    expect_failed_for_good(error);
    EXPECT_EQ(run_error_of([&] { store_->arrange(); }), error);
  }
}

INSTANTIATE_TEST_SUITE_P(Engines, SsdFaults, ::testing::Bool(),
                         [](const ::testing::TestParamInfo<bool>& info) {
                           return info.param ? "uring" : "threads";
                         });

}  // namespace
}  // namespace dlrm::testing
