-- The file names the session of the main model; its observations are not this file's.
INSERT INTO observations (id, prompt_number, created_at, title) VALUES
  (101, 1, '2025-11-18T09:00:06.000Z', 'what the main model did');
