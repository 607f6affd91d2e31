// Package images checks the images that bring the guest agent along; see README.md.
package images
