int close(int file);
