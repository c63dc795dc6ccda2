//! zset
#![allow(dead_code)]
mod member;
mod node;
mod tree;
