"""Names in smdebug 1.0.34 of the members of its hook, its trial and their settings.

Each of them has a row on the page for users of that library.
"""

from __future__ import annotations

HOOK = """
out_dir export_tensorboard tensorboard_dir dry_run reduction_config save_config include_regex
include_collections save_all include_workers hyperparameters train_data validation_data
profiler_config_parser init_step
add_collection get_collection get_collections set_mode create_from_json_file close save_scalar
sm_metric timestamp save_tensor collections_to_write record_trace_events
should_save_tensor_or_collection has_default_configuration get_hook set_hook del_hook
register_module register_hook register_loss record_tensor_value register_block
wrap_optimizer wrap_tape register_model set_gradients set_optimizer_variables add_to_collection
save_smdebug_logs profiler profiling_start_batch profiling_end_batch profiling_end
KerasHook SessionHook EstimatorHook callbacks
"""
COLLECTIONS = """
all default weights biases gradients losses metrics inputs outputs layers optimizer_variables
sm_metrics hyperparameters predictions labels feature_importance full_shap average_shap trees
tensorflow_summaries
name include_regex tensor_names reduction_config save_config save_histogram include add
add_keras_layer add_module_tensors add_block_tensors add_tensor_name remove_tensor_name
has_tensor set_save_config
SaveConfig mode_save_configs save_interval start_step end_step save_steps SaveConfigMode
TRAIN EVAL PREDICT GLOBAL
ReductionConfig reductions abs_reductions norms abs_norms save_raw_tensor save_shape
min max mean std variance sum prod l1 l2 median
"""
SETTINGS = """
S3Path S3OutputPath LocalPath HookParameters CollectionConfigurations CollectionName
CollectionParameters RuleParameters
SMDEBUG_CONFIG_FILE_PATH TENSORBOARD_CONFIG_FILE_PATH CHECKPOINT_CONFIG_FILE_PATH
SMPROFILER_CONFIG_PATH HOROVOD_TIMELINE TRAINING_JOB_NAME AWS_REGION
SAGEMAKER_METRICS_DIRECTORY USE_SMDEBUG SMDEBUG_TRAINING_END_DELAY_REFRESH
SMDEBUG_INCOMPLETE_STEP_WAIT_WINDOW SMDEBUG_MISSING_EVENT_FILE_RETRY_LIMIT
SMDEBUG_KERAS_CALLABLE_CACHE_TYPE TIME_BUFFER_MICROSECONDS TRAILING_DURATION_MICROSECONDS
"""
TRIAL = """
create_trial path name profiler output_dir range_steps parallel check index_mode cache
tensor_names show_prefixed_tensors step mode regex collection tensor has_tensor steps
show_incomplete_steps modes mode_step mode_modestep global_step workers num_workers
workers_for_global_step collections inputs labels predictions wait_for_steps has_passed_step
StepState no_refresh refresh dynamic_refresh loaded_all_steps
prev_steps value values reduction_value reduction_values shape shapes original_name
SMDebugError TensorUnavailableForStep ShapeUnavailableForStep TensorUnavailable StepUnavailable
StepNotYetAvailable NoMoreData NoMoreProfilerData MissingCollectionFiles IndexReaderException
InvalidWorker InvalidCollectionConfiguration RuleEvaluationConditionMet
InsufficientInformationForRuleInvocation
"""
RULES = """
base_trial other_trials action_str set_required_tensors req_tensors invoke_at_step invoke report
invoke_rule StopTraining Email SMS
DeadRelu ExplodingTensor PoorWeightInitialization SaturatedActivation VanishingGradient
WeightUpdateRatio AllZero ClassImbalance LossNotDecreasing Overfit Overtraining SimilarAcrossRuns
StalledTrainingRule TensorVariance UnchangedTensor CheckInputImages NLPSequenceRatio Confusion
FeatureImportanceOverweight TreeDepth CreateXgboostReport
BatchSize CPUBottleneck GPUMemoryIncrease IOBottleneck LoadBalancing LowGPUUtilization
OverallSystemUsage MaxInitializationTime OverallFrameworkMetrics StepOutlier Dataloader
ProfilerReport
"""
FILES = "events index collections tensorboard training_job_end claim"

THEIRS = tuple(dict.fromkeys(" ".join((HOOK, COLLECTIONS, SETTINGS, TRIAL, RULES, FILES)).split()))
