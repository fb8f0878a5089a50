//! Pando, floor 1: files and directories behind traits, with a simulated disk that loses, reorders and tears.
