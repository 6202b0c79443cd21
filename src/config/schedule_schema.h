#pragma once
#include "dlrm/config/run_config.h"

#include "schema.h"

namespace dlrm {

/// The keys of train.lr_schedule. A key that the type does not use is an error.
Schema<ScheduleConfig> schedule_schema();

}  // namespace dlrm
