"""The Array API standard: devices, and what a namespace tells about itself."""
