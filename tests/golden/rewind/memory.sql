INSERT INTO user_prompts (id, prompt_number, prompt_text, created_at) VALUES
  (11, 1, 'Build the package.', '2025-11-18T09:00:00.100Z'),
  (12, 2, 'Publish it.', '2025-11-18T09:01:00.100Z'),
  (13, 3, 'Write the changelog instead.', '2025-11-18T09:02:00.100Z');
INSERT INTO observations (id, prompt_number, created_at, title) VALUES
  (101, 1, '2025-11-18T09:00:12.000Z', 'The package was built'),
  (102, 2, '2025-11-18T09:01:07.000Z', 'The upload was refused'),
  (103, 3, '2025-11-18T09:02:04.000Z', 'The changelog has three entries');
INSERT INTO tool_uses (tool_use_id, observation_id) VALUES ('toolu_1', 101), ('toolu_2', 102);
