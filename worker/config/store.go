package config

import (
	"fmt"

	"weft/worker/store"
)

const sessionVariable = "AWS_SESSION_TOKEN"

// OpenStore opens the store of the settings. The error is [Problems] and contains no key.
func (c *Config) OpenStore() (*store.Store, error) {
	s, err := c.storeSettings()
	if err != nil {
		return nil, err
	}
	out, err := store.Open(s)
	return out, asProblems(err)
}

// CheckStore checks the settings of the store without creating a directory or querying a bucket. The
// error is [Problems] and contains no key.
func (c *Config) CheckStore() error {
	s, err := c.storeSettings()
	if err != nil {
		return err
	}
	return asProblems(store.Check(s))
}

func asProblems(err error) error {
	if err == nil {
		return nil
	}
	return Problems{err.Error()}
}

// storeSettings returns the settings of the store, with keys.
func (c *Config) storeSettings() (store.Settings, error) {
	s := c.Store.Settings
	if s.Bucket == "" {
		return s, nil
	}
	options, _, err := c.temporal()
	if err != nil {
		return s, err
	}
	s.Namespace = options.Namespace
	var problems Problems
	for _, v := range []struct {
		setting, name string
		at            *string
	}{
		{"store.key_env", c.Store.KeyEnv, &s.AccessKey},
		{"store.secret_env", c.Store.SecretEnv, &s.SecretKey},
		{"store", sessionVariable, &s.SessionToken},
	} {
		if *v.at, err = c.secret(v.name); err != nil {
			problems = append(problems, fmt.Sprintf("%s: %v", v.setting, err))
		}
	}
	if (s.AccessKey == "") != (s.SecretKey == "") && len(problems) == 0 {
		problems = append(problems, fmt.Sprintf("store.bucket: only one of %s and %s is set; set both, or neither to use the machine's role", c.Store.KeyEnv, c.Store.SecretEnv))
	}
	return s, problems.err()
}
