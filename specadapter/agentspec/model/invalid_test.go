package model_test

import (
	"path/filepath"
	"testing"

	"weft/specadapter/agentspec/model"
	"weft/specadapter/source"
)

// fault is the expected diagnostic of a document: a code at a line, with its severity in the strict
// and in the default profile.
type fault struct {
	code             string
	line             int
	strict, standard source.Severity
}

// Severities, abbreviated for the table.
const (
	fail = source.Error
	warn = source.Warning
)

// faults maps the corpus documents to the error each was written for; some have further ones.
var faults = map[string]fault{
	"repo/nested_reference_with_incorrect_version.yaml":      {"version-unknown", 42, fail, fail},
	"repo/misplaced_agentspec_version.yaml":                  {"version-unknown", 15, fail, fail},
	"repo/repeated_reference_key.yaml":                       {"ref-dup-level", 45, fail, fail},
	"repo/self_referencing_flow.yaml":                        {"ref-cycle", 60, fail, fail},
	"repo/cts_pflow_overlapping_outputs.yaml":                {"parallelflow-output-dup", 154, fail, fail},
	"repo/cts_pflow_overlapping_inputs_different_types.yaml": {"parallelflow-input-type-conflict", 146, fail, fail},
	"authored/flow_no_start_node.json":                       {"flow-start-count", 20, fail, fail},
	"authored/flow_two_start_nodes.json":                     {"flow-start-count", 20, fail, fail},
	"authored/flow_start_node_not_in_nodes.json":             {"flow-start-identity", 17, fail, fail},
	"authored/flow_start_node_inlined_twice_same_id.json":    {"flow-start-identity", 17, fail, fail},
	"authored/start_two_outgoing.json":                       {"start-out-edges", 56, fail, fail},
	"authored/start_no_outgoing.json":                        {"start-out-edges", 31, fail, fail},
	"authored/edge_to_start.json":                            {"edge-into-start", 56, fail, fail},
	"authored/flow_no_end_node.json":                         {"end-count", 15, fail, fail},
	"authored/end_without_incoming.json":                     {"end-incoming", 31, fail, fail},
	"authored/edge_from_end.json":                            {"edge-out-of-end", 56, fail, fail},
	"authored/control_edge_unknown_node.json":                {"edge-node-in-flow", 64, fail, fail},
	"authored/data_edge_unknown_node.json":                   {"edge-node-in-flow", 88, fail, fail},
	"authored/data_edge_unknown_output.json":                 {"data-edge-prop-exists", 65, fail, fail},
	"authored/data_edge_unknown_input.json":                  {"data-edge-prop-exists", 69, fail, fail},
	"authored/data_edge_incompatible_string_to_integer.json": {"data-edge-castable", 58, fail, fail},
	"authored/data_edge_incompatible_array_items.json":       {"data-edge-castable", 61, fail, fail},
	"authored/end_outputs_same_name_diff_type.json":          {"end-output-type-conflict", 194, fail, fail},
	"authored/flow_output_not_in_end_no_default.json":        {"flow-output-in-every-end-or-default", 17, fail, fail},
	"authored/flow_missing_start_input.json":                 {"io-missing", 5, fail, fail},
	"authored/flow_extra_input.json":                         {"io-extra", 11, fail, warn},
	"authored/llm_extra_input.json":                          {"io-extra", 121, fail, warn},
	"authored/llm_missing_placeholder_input.json":            {"io-missing", 101, fail, fail},
	"authored/duplicate_titles.json":                         {"io-dup-title", 96, fail, fail},
	"authored/start_inputs_outputs_differ.json":              {"start-io-eq", 98, fail, fail},
	"authored/end_inputs_outputs_differ.json":                {"end-io-eq", 140, fail, fail},
	"authored/branches_mismatch.json":                        {"branches-match", 127, fail, fail},
	"authored/branches_duplicate.json":                       {"branches-dup", 129, fail, fail},
	"authored/branching_two_inputs.json":                     {"branching-one-input", 198, fail, fail},
	"authored/branching_has_output.json":                     {"branching-no-output", 200, fail, fail},
	"authored/branching_no_mapping.json":                     {"field-missing", 185, fail, fail},
	"authored/from_branch_unknown.json":                      {"branch-unknown", 66, fail, fail},
	"authored/two_edges_same_branch.json":                    {"branch-two-edges", 71, fail, fail},
	"authored/branching_default_edge_missing.json":           {"branch-unconnected", 31, warn, warn},
	"authored/unreachable_node.json":                         {"node-unreachable", 31, fail, warn},
	"authored/dead_end_node.json":                            {"branch-unconnected", 31, warn, warn},
	"authored/input_never_fed_no_default.json":               {"input-unfed", 104, fail, fail},
	"authored/llm_config_missing.json":                       {"field-missing", 103, fail, fail},
	"authored/llm_config_wrong_type.json":                    {"ref-type", 107, fail, fail},
	"authored/reference_type_mismatch.json":                  {"ref-type", 107, fail, fail},
	"authored/missing_reference.json":                        {"ref-missing", 31, fail, fail},
	"authored/unknown_version.json":                          {"version-unknown", 146, fail, fail},
	"authored/component_type_missing.json":                   {"type-missing", 103, fail, fail},
	"authored/component_type_unknown.json":                   {"type-unknown", 104, fail, fail},
	"authored/disaggregated_as_main.json":                    {"no-main", 1, fail, fail},
	"authored/version_structured_generation_in_25_4_1.json":  {"version-too-low", 121, fail, warn},
	"authored/title_with_space.json":                         {"prop-title", 7, fail, fail},
	"authored/default_type_mismatch.json":                    {"prop-default", 9, fail, fail},
	"authored/bad_json_schema.json":                          {"prop-schema", 8, fail, fail},
	"authored/oneof_not_supported.json":                      {"prop-schema", 8, fail, fail},
	"authored/input_message_non_string_output.json":          {"inputmsg-one-string-output", 77, fail, fail},
	"authored/input_message_two_outputs.json":                {"inputmsg-one-string-output", 81, fail, fail},
	"authored/input_message_extra_input.json":                {"io-extra", 77, fail, warn},
	"authored/api_headers_overlap.json":                      {"headers-disjoint", 92, fail, fail},
	"authored/api_extra_input.json":                          {"io-extra", 97, fail, warn},
	"authored/api_undeclared_placeholder.json":               {"io-missing", 89, fail, warn},
	"authored/map_input_without_prefix.json":                 {"map-prefixes", 191, fail, warn},
	"authored/map_output_without_prefix.json":                {"map-prefixes", 191, fail, warn},
	"authored/map_unknown_reducer.json":                      {"reducer-unknown-method", 190, fail, fail},
	"authored/map_reducer_unknown_output.json":               {"reducer-unknown-output", 190, fail, fail},
	"authored/map_sum_over_strings.json":                     {"reducer-non-numeric", 190, fail, fail},
	"authored/version_parallelmap_in_25_4_1.json":            {"version-too-low", 54, fail, warn},
	"authored/parallelflow_same_output.json":                 {"parallelflow-output-dup", 190, fail, fail},
	"authored/catch_no_default.json":                         {"catch-default-missing", 70, fail, fail},
	"authored/catch_branch_conflict.json":                    {"catch-branch-conflict", 58, fail, fail},
	"authored/toolnode_extra_input.json":                     {"io-extra", 65, fail, warn},
	"authored/toolnode_with_toolbox.json":                    {"toolnode-not-toolbox", 58, fail, fail},
	"authored/agent_missing_placeholder_input.json":          {"io-missing", 12, fail, fail},
	"authored/agent_extra_input.json":                        {"io-extra", 15, fail, warn},
	"authored/agent_no_llm.json":                             {"field-missing", 1, fail, fail},
	"authored/version_hitl_false_in_25_4_1.json":             {"version-too-low", 13, fail, warn},
	"authored/version_confirmation_in_25_4_1.json":           {"version-too-low", 18, fail, warn},
	"authored/swarm_no_relationships.json":                   {"swarm-empty", 18, fail, fail},
	"authored/managerworkers_no_workers.json":                {"mw-no-workers", 18, fail, fail},
	"authored/manager_is_worker.json":                        {"mw-manager-is-worker", 10, fail, fail},
	"authored/retry_negative_attempts.json":                  {"retry-bounds", 21, fail, fail},
	"authored/retry_delay_bounds.json":                       {"retry-bounds", 22, fail, fail},
	"authored/retry_unknown_field.json":                      {"field-unknown", 21, warn, warn},
	"authored/transform_thresholds.json":                     {"transform-thresholds", 25, fail, fail},
	"authored/unknown_fields.json":                           {"field-unknown", 127, warn, warn},
	"authored/duplicate_ids_different_components.json":       {"id-dup", 175, fail, warn},
}

// valid are documents of the corpus that the reference loader rejects although the
// specification allows them.
var valid = map[string]bool{"authored/scalar_in_referenced_components.json": true}

func TestCorpusInvalid(t *testing.T) {
	dir, rows := corpus(t, "agentspec-invalid")
	if len(rows) != len(faults)+len(valid) {
		t.Errorf("the corpus has %d files, %d are listed here", len(rows), len(faults)+len(valid))
	}
	for _, row := range rows {
		for _, profile := range []string{model.ProfileDefault, model.ProfileStrict} {
			t.Run(profile+"/"+row[0], func(t *testing.T) {
				doc, diags := model.Load(row[0], readCorpus(t, filepath.Join(dir, row[0])), model.Options{Profile: profile})
				checkModel(t, doc, diags)
				if valid[row[0]] {
					if len(diags) > 0 {
						t.Errorf("got\n%s", render(diags))
					}
					return
				}
				want := faults[row[0]]
				severity := want.standard
				if profile == model.ProfileStrict {
					severity = want.strict
				}
				for _, d := range diags {
					if d.Code == want.code && d.Line == want.line && d.Severity == severity {
						return
					}
				}
				t.Errorf("want %s %s at line %d, got\n%s", severity, want.code, want.line, render(diags))
			})
		}
	}
}
