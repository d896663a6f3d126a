"""Scripts that write what is committed beside the code: pictures. Not part of the wheel."""
