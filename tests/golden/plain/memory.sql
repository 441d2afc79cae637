INSERT INTO user_prompts (id, prompt_number, prompt_text, created_at) VALUES
  (11, 1, 'Why is low water an hour late?' || char(10) || char(10) || '  $ tidepool next' || char(10) || '  15:41', '2025-11-18T09:00:05.100Z'),
  (12, 2, 'Fix it.', '2025-11-18T09:05:00.100Z');
INSERT INTO observations (id, prompt_number, created_at, type, title, subtitle, narrative, text) VALUES
  (101, 1, '2025-11-18T09:00:10.000Z', 'discovery', 'The offset is added twice', NULL, 'In predict.py, e.g. line 4, and in table.py v. 2.5 the offset is added. Neither knows of the other.', NULL),
  -- Its number is late, its tool call is right.
  (102, 2, '2025-11-18T09:00:10.000Z', 'discovery', NULL, 'Nothing else shifts the clock', 'All 14 callers were read: none shifts it again.', NULL),
  -- No tool call: by number.
  (103, 2, '2025-11-18T09:05:05.000Z', 'bugfix', 'predict() adds it' || char(10) || 'once', NULL, NULL, NULL),
  -- Neither: by time. And no title either: the first words of what there is, or the type.
  (104, NULL, '2025-11-18T09:05:09.000Z', 'change', NULL, NULL, NULL, 'legacy text: 41 tests pass'),
  (105, NULL, '2025-11-18T09:05:09.000Z', 'decision', NULL, NULL, NULL, NULL);
INSERT INTO tool_uses (tool_use_id, observation_id) VALUES ('toolu_1', 101), ('toolu_1', 102);
