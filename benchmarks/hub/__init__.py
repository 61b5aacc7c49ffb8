"""A stream in a bucket of the Hugging Face Hub, by its API and by its S3 gateway, measured on the emulator."""
