#pragma once
#include "dlrm/device/staging_buffer.h"

namespace dlrm {

/// The former name of StagingBuffer.
using Upload = StagingBuffer;

}  // namespace dlrm
