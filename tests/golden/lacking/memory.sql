INSERT INTO user_prompts (id, prompt_number, prompt_text, created_at) VALUES
  (11, 1, 'First, and kept.', '2025-11-18T09:00:00.100Z'),
  (12, 2, 'Second, and lost', '2025-11-18T09:10:00.000Z'),
  (13, 3, '[media prompt]', '2025-11-18T09:20:00.100Z'),
  (14, 4, 'Last, and kept.', '2025-11-18T09:30:00.100Z'),
  (15, 5, '/review what was lost at the end', '2025-11-18T09:40:00.000Z');
INSERT INTO observations (id, prompt_number, created_at, title) VALUES
  (101, 1, '2025-11-18T09:00:03.000Z', 'under the first'),
  (102, 2, '2025-11-18T09:10:03.000Z', 'under the second, which is lost'),
  (103, 3, '2025-11-18T09:20:03.000Z', 'under the picture'),
  (104, 4, '2025-11-18T09:30:03.000Z', 'under the last'),
  (105, 5, '2025-11-18T09:40:03.000Z', 'under the lost command');
