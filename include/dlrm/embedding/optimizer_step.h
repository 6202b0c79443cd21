#pragma once
#include "dlrm/core/optimizer.h"
