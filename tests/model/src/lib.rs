//! The protocol of slots, grants and moves as a model that can be searched.
