// Package iface defines the types with which the server describes compute configurations.
package iface

import (
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
)

// The names of compute providers and scaling algorithms.
type (
	ComputeProviderType  string
	ScalingAlgorithmType string
)

// ComputeProviderSpec is a compute provider and its settings.
type ComputeProviderSpec struct {
	ProviderType  ComputeProviderType
	Config        *commonpb.Payload
	NexusEndpoint string
}

// ScalingAlgorithmSpec is a scaling algorithm and its settings.
type ScalingAlgorithmSpec struct {
	ScalingAlgorithm ScalingAlgorithmType
	Config           *commonpb.Payload
}

// ScalingGroupSpec specifies how tasks of some types are scaled.
type ScalingGroupSpec struct {
	TaskTypes []enumspb.TaskQueueType
	Compute   ComputeProviderSpec
	Scaling   *ScalingAlgorithmSpec
}

// ScalingGroupSpecUpdate changes the fields that the mask lists.
type ScalingGroupSpecUpdate struct {
	Spec       ScalingGroupSpec
	UpdateMask []string
}

// WorkerControllerInstanceSpec holds the scaling groups of a version.
type WorkerControllerInstanceSpec struct {
	ScalingGroupSpecs map[string]ScalingGroupSpec
}

// QueryDescribeWorkerControllerInstanceResponse describes a controller.
type QueryDescribeWorkerControllerInstanceResponse struct {
	Spec             *WorkerControllerInstanceSpec
	ValidationStatus *ValidationStatus
}

// UpdateWorkerControllerInstanceResponse holds the configuration after an update.
type UpdateWorkerControllerInstanceResponse struct {
	Spec *WorkerControllerInstanceSpec
}

// ValidationResult is the result of a validation.
type ValidationResult string

// ValidationResultFailed is the result of a validation that failed.
const ValidationResultFailed ValidationResult = "failed"

// ValidationStatus is the outcome of the last validation.
type ValidationStatus struct {
	LastValidationTime time.Time
	Status             ValidationResult
	ErrMessage         string
}
