INSERT INTO user_prompts (id, prompt_number, prompt_text, created_at) VALUES
  (11, 1, 'Why is low water an hour late?', '2025-11-18T09:00:05.000Z'),
  (12, 2, '/review predict.py', '2025-11-18T09:05:00.000Z'),
  -- 3999 characters and an ellipsis: cut by claude-mem.
  (13, 3, substr(replace(hex(zeroblob(500)), '00', 'ebb and '), 1, 3999) || '…', '2025-11-18T09:10:00.000Z'),
  -- 4000 characters, whole.
  (14, 4, replace(hex(zeroblob(500)), '00', 'flow on '), '2025-11-18T09:15:00.000Z'),
  (15, 5, '[media prompt]', '2025-11-19T08:00:00.000Z');
INSERT INTO observations (id, prompt_number, created_at, title, narrative) VALUES
  (101, 1, '2025-11-18T09:00:10.000Z', 'The offset is added twice', 'Once in predict.py. Once in table.py.'),
  (102, 2, '2025-11-18T09:05:09.000Z', 'predict.py was reviewed', NULL),
  -- Older than the one before, and later in the table: time decides.
  (103, 2, '2025-11-18T09:05:02.000Z', 'predict.py was read', NULL),
  (104, NULL, '2025-11-19T08:00:05.000Z', 'The picture shows the board at the quay', NULL);
INSERT INTO session_summaries (id, prompt_number, created_at, request, investigated, learned, completed, next_steps, notes) VALUES
  (201, 1, '2025-11-18T09:04:00.000Z', 'Why is low water late', 'predict.py' || char(10) || 'table.py', NULL, 'Nothing yet', 'Fix it', NULL),
  (202, 5, '2025-11-19T08:10:00.000Z', 'Look like the board', NULL, 'The board shows metres', 'Heights added', 'Print one', '');
