#pragma once
#include "dlrm/config/run_config.h"

#include "codec.h"

namespace dlrm {

// The names of enumerators in YAML.

inline const Names<Pooling> kPoolingNames{
    {"sum", Pooling::kSum}, {"mean", Pooling::kMean}, {"max", Pooling::kMax}};
inline const Names<InitType> kInitTypeNames{
    {"uniform", InitType::kUniform}, {"normal", InitType::kNormal}, {"zero", InitType::kZero}};
inline const Names<DType> kTableTypeNames{{"fp32", DType::kFloat32}, {"bf16", DType::kBFloat16}};
inline const Names<DType> kForwardWireNames{
    {"fp32", DType::kFloat32}, {"bf16", DType::kBFloat16}, {"fp16", DType::kFloat16}};
inline const Names<Activation> kActivationNames{{"relu", Activation::kRelu},
                                                {"gelu", Activation::kGelu},
                                                {"silu", Activation::kSilu},
                                                {"sigmoid", Activation::kSigmoid},
                                                {"tanh", Activation::kTanh}};
inline const Names<Precision> kPrecisionNames{{"fp32", Precision::kFp32},
                                              {"bf16", Precision::kBf16}};
inline const Names<LrScaling> kLrScalingNames{
    {"none", LrScaling::kNone}, {"linear", LrScaling::kLinear}, {"sqrt", LrScaling::kSqrt}};
inline const Names<ScheduleType> kScheduleTypeNames{{"polynomial", ScheduleType::kPolynomial},
                                                    {"cosine", ScheduleType::kCosine},
                                                    {"step", ScheduleType::kStep}};
inline const Names<DataKind> kDataKindNames{{"hdf5", DataKind::kHdf5},
                                            {"criteo", DataKind::kCriteo},
                                            {"parquet", DataKind::kParquet},
                                            {"synthetic", DataKind::kSynthetic},
                                            {"replay", DataKind::kReplay}};
inline const Names<InvalidId> kInvalidIdNames{{"error", InvalidId::kError},
                                              {"drop", InvalidId::kDrop}};
inline const Names<Strategy> kStrategyNames{
    {"auto", Strategy::kAuto}, {"table", Strategy::kTable},
    {"row", Strategy::kRow},   {"column", Strategy::kColumn},
    {"grid", Strategy::kGrid}, {"data_parallel", Strategy::kDataParallel}};
inline const Names<RoutingMode> kRoutingModeNames{
    {"auto", RoutingMode::kAuto}, {"exact", RoutingMode::kExact}, {"fixed", RoutingMode::kFixed}};
inline const Names<CommKind> kCommNames{{"auto", CommKind::kAuto},
                                        {"mpi", CommKind::kMpi},
                                        {"nccl", CommKind::kNccl},
                                        {"staged", CommKind::kStaged}};
inline const Names<MemoryTier> kMemoryTierNames{{"auto", MemoryTier::kAuto},
                                                {"device", MemoryTier::kDevice},
                                                {"host", MemoryTier::kHost},
                                                {"cached", MemoryTier::kCached}};
inline const Names<BestMetric> kBestMetricNames{{"none", BestMetric::kNone},
                                                {"auc", BestMetric::kAuc},
                                                {"log_loss", BestMetric::kLogLoss},
                                                {"pr_auc", BestMetric::kPrAuc},
                                                {"gauc", BestMetric::kGauc}};
inline const Names<DeviceKind> kDeviceNames{
    {"auto", DeviceKind::kAuto}, {"cpu", DeviceKind::kCpu}, {"cuda", DeviceKind::kCuda}};

}  // namespace dlrm
